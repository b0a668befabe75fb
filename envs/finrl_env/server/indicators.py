"""Technical indicators, by stockstats: FinRL's names are that library's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np
import pandas as pd
import stockstats
from numpy.typing import NDArray

from finrl_env.server.prices import Prices
from openenv_gym.errors import InvalidOptionError


__all__ = ["compute_indicators"]

MAX_VALUES = 16_000_000
"""Most numbers, over all days, stocks and indicators: 64 MB as an agent sees them."""


def compute_indicators(prices: Prices, names: Sequence[str]) -> NDArray[np.float64]:
    """Compute the indicators of each day from that day and those before it.

    A name that is a column of the data stands for that column. Any other is looked up in
    stockstats, of which some names look ahead (``close_2_s`` is the close in two days): whatever
    changes when further days are added is refused.

    Args:
        prices: The market.
        names: Names of the indicators.

    Returns:
        Shape (days, indicators * stocks): the first indicator of all stocks, then the second. NaN
        where one is not defined, as on the first days.

    Raises:
        InvalidOptionError: stockstats has no such indicator, it looks ahead, or there are too many.
    """
    days, stocks = prices.close.shape
    if days * stocks * len(names) > MAX_VALUES:
        raise InvalidOptionError(
            f"tech_indicator_list: {len(names)} indicators of {stocks} stocks on {days:,} days are "
            f"more than {MAX_VALUES:,} numbers.",
            field="tech_indicator_list",
            hint="Take fewer of them.",
        )
    computed = np.empty((days, len(names), stocks))
    for stock in range(stocks):
        columns = {name: column[:, stock] for name, column in prices.columns.items()}
        found = _compute(columns, names)
        # Days that lead back, at other prices.
        longer = {name: np.append(column, 1.5 * column[::-1]) for name, column in columns.items()}
        same = np.isclose(found, _compute(longer, names)[:days], rtol=1e-6, equal_nan=True)
        # What has no value at all, because it looks back further than there are days, may get one.
        same |= np.isnan(found).all(axis=0)
        if not same.all():
            _refuse(names[int(np.argmin(same.all(axis=0)))], "it looks ahead, at later days")
        computed[:, :, stock] = found
    computed[~np.isfinite(computed)] = np.nan
    return computed.reshape(days, -1)


def _compute(
    columns: Mapping[str, NDArray[np.float64]], names: Sequence[str]
) -> NDArray[np.float64]:
    """Return the indicators of one stock, of shape (days, indicators)."""
    frame = stockstats.wrap(pd.DataFrame(columns))
    found = np.empty((len(frame), len(names)))
    with np.errstate(all="ignore"):
        for index, name in enumerate(names):
            try:
                found[:, index] = np.asarray(frame[name], np.float64)
            except Exception as error:  # of many kinds, as it makes sense of the name
                _refuse(name, f"stockstats cannot compute it ({type(error).__name__}: {error})")
    return found


def _refuse(name: str, why: str) -> NoReturn:
    raise InvalidOptionError(
        f"tech_indicator_list: {name!r}: {why:.200}.",
        field="tech_indicator_list",
        hint="Names are those of stockstats, such as 'rsi_30', or of columns of the data.",
    )
