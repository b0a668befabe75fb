"""A market: all that an environment knows of the outside world, computed once."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from finrl_env.options import FinRLOptions
from finrl_env.server.indicators import compute_indicators
from finrl_env.server.prices import Prices
from finrl_env.server.turbulence import turbulence_index
from openenv_gym.errors import InvalidOptionError


__all__ = ["Market", "make_market"]


@dataclass(frozen=True)
class Market:
    """Days, stocks, prices and what is computed of them. Nothing here ever changes.

    Attributes:
        tickers: Names of the stocks.
        dates: The days, ascending.
        close: Closing prices, of shape (days, stocks), float64.
        indicators: Shape (days, indicators * stocks), float32, finite from `first` on.
        turbulence: Shape (days,), float64; None where nobody asks for it.
        first: The first day on which every indicator is known.
        digest: A text that a market with other prices does not have.
    """

    tickers: tuple[str, ...]
    dates: tuple[str, ...]
    close: NDArray[np.float64]
    indicators: NDArray[np.float32]
    turbulence: NDArray[np.float64] | None
    first: int
    digest: str


def make_market(prices: Prices, options: FinRLOptions) -> Market:
    """Compute what `options` ask for, or return what was computed before.

    Raises:
        InvalidOptionError: An indicator or the risk column cannot be had, or an option about
            turbulence would have no effect.
    """
    _check_effect(options)
    asked = options.turbulence_threshold is not None
    return _make(
        prices,
        tuple(options.tech_indicator_list),
        options.turbulence_window if asked else None,
        options.risk_indicator_col if asked else None,
    )


def _check_effect(options: FinRLOptions) -> None:
    """Refuse options about turbulence that would change nothing.

    Whoever gives one believes that the agent is held back on turbulent days.
    """
    windowed = options.turbulence_window != FinRLOptions.model_fields["turbulence_window"].default
    column = options.risk_indicator_col is not None
    name = "risk_indicator_col" if column else "turbulence_window"
    if options.turbulence_threshold is None and (windowed or column):
        raise InvalidOptionError(
            f"{name}={getattr(options, name)!r:.80} has no effect without a turbulence_threshold.",
            field=name,
            hint="Give a turbulence_threshold as well, or leave it out.",
        )
    if windowed and column:
        raise InvalidOptionError(
            f"turbulence_window={options.turbulence_window} has no effect with a "
            "risk_indicator_col, which is taken as it is.",
            field="turbulence_window",
            hint="Leave one of them out.",
        )


# The environments of a process mostly trade in one market, and to compute it takes a while.
@functools.lru_cache(maxsize=4)
def _make(
    prices: Prices, names: tuple[str, ...], window: int | None, risk_column: str | None
) -> Market:
    indicators = _carried_on(compute_indicators(prices, names))
    turbulence = None
    if risk_column is not None:
        turbulence = _risk(prices, risk_column)
    elif window is not None:
        turbulence = turbulence_index(prices.close, window)
    first = _first_known(indicators, names, len(prices.tickers))
    indicators.flags.writeable = False
    return Market(
        tickers=prices.tickers,
        dates=prices.dates,
        close=prices.close,
        indicators=indicators,
        turbulence=turbulence,
        first=first,
        digest=prices.digest,
    )


def _carried_on(indicators: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return them with a hole filled by what was last known, never from a later day."""
    with np.errstate(over="ignore"):
        narrow = indicators.astype(np.float32)
    narrow[~np.isfinite(narrow)] = np.nan
    filled: NDArray[np.float32] = pd.DataFrame(narrow).ffill().to_numpy(np.float32, copy=True)
    return filled


def _first_known(indicators: NDArray[np.float32], names: tuple[str, ...], stocks: int) -> int:
    unknown = np.isnan(indicators)
    if unknown[-1].any():
        name = names[int(np.argmax(unknown[-1])) // stocks]
        raise InvalidOptionError(
            f"tech_indicator_list: {name!r} is not defined on any of the {len(unknown)} days.",
            field="tech_indicator_list",
            hint="It may look back further than that, or divide by a range of prices that is 0.",
        )
    return int(unknown.any(axis=1).sum())


def _risk(prices: Prices, name: str) -> NDArray[np.float64]:
    if name not in prices.columns:
        raise InvalidOptionError(
            f"risk_indicator_col={name!r:.80}: the data have no such column.",
            field="risk_indicator_col",
            hint="None computes the turbulence index.",
        )
    # It is one number for a day, which FinRL repeats for each stock.
    return np.ascontiguousarray(prices.columns[name][:, 0])
