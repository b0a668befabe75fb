"""Technical indicators, by stockstats: FinRL's names are that library's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np
import pandas as pd
import stockstats
from numpy.typing import NDArray

from finrl_env.server.prices import Prices
from openenv_gym.errors import InvalidOptionError


__all__ = ["compute_indicators"]


def compute_indicators(prices: Prices, names: Sequence[str]) -> NDArray[np.float64]:
    """Compute the indicators of each day from that day and those before it.

    A name that is a column of the data stands for that column. Any other is looked up in
    stockstats, of which some names look ahead (``close_2_s`` is the close in two days): whatever
    changes when later days are left out is refused.

    Args:
        prices: The market.
        names: Names of the indicators.

    Returns:
        Shape (days, indicators * stocks): the first indicator of all stocks, then the second. NaN
        where one is not defined, as on the first days.

    Raises:
        InvalidOptionError: stockstats has no such indicator, or it looks ahead.
    """
    days, stocks = prices.close.shape
    computed = np.empty((days, len(names), stocks))
    half = (days + 1) // 2
    for stock in range(stocks):
        computed[:, :, stock] = _of_stock(prices, stock, names, days)
        before = _of_stock(prices, stock, names, half)
        same = np.isclose(before, computed[:half, :, stock], rtol=1e-6, atol=1e-9, equal_nan=True)
        if not same.all():
            _refuse(names[int(np.argmin(same.all(axis=0)))], "it looks ahead, at later days")
    computed[~np.isfinite(computed)] = np.nan
    return computed.reshape(days, -1)


def _of_stock(prices: Prices, stock: int, names: Sequence[str], days: int) -> NDArray[np.float64]:
    """Return the indicators of the first days of one stock, of shape (days, indicators)."""
    columns = {name: column[:days, stock] for name, column in prices.columns.items()}
    frame = stockstats.wrap(pd.DataFrame(columns))
    found = np.empty((days, len(names)))
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
