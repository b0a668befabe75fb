"""Markets that are made up: correlated geometric Brownian motions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd


if TYPE_CHECKING:
    from finrl_env.options import GeneratorOptions

__all__ = ["generate"]

_DAYS_A_YEAR = 252
_FIRST_DAY = "2000-01-03"
_FIRST_PRICE = 100.0
# What a price may have grown to, so that no drift leads out of what is a price.
_LEAST, _MOST = 1e-8, 1e6


def generate(options: GeneratorOptions) -> pd.DataFrame:
    """Return prices that a seed decides, in FinRL's columns.

    The closing price of each stock is a geometric Brownian motion, S(t) = S(0) exp((drift -
    volatility**2 / 2) t + volatility W(t)) with S(0) = 100, t in years of 252 days, and a common
    correlation of the W. A day opens at the close of the day before; high and low lie a little
    outside of the two.

    Args:
        options: How many days and stocks, and what they are like.

    Returns:
        A row for each day and stock, sorted by both.
    """
    generator = np.random.default_rng(options.seed)
    days, stocks = options.days, options.stocks
    common = generator.standard_normal((days - 1, 1))
    own = generator.standard_normal((days - 1, stocks))
    noise = np.sqrt(options.correlation) * common + np.sqrt(1.0 - options.correlation) * own
    step = 1.0 / _DAYS_A_YEAR
    growth = (options.drift - options.volatility**2 / 2) * step
    moves = growth + options.volatility * np.sqrt(step) * noise
    exponents = np.vstack([np.zeros((1, stocks)), np.cumsum(moves, axis=0)])
    close = _FIRST_PRICE * np.exp(np.clip(exponents, np.log(_LEAST), np.log(_MOST)))
    opening = np.vstack([close[:1], close[:-1]])
    beyond = 1.0 + 0.5 * options.volatility * np.sqrt(step) * generator.random((2, days, stocks))
    width = len(str(stocks))
    return pd.DataFrame(
        {
            "date": np.repeat(pd.bdate_range(_FIRST_DAY, periods=days), stocks),
            "tic": [f"S{number:0{width}}" for number in range(1, stocks + 1)] * days,
            "open": opening.ravel(),
            "high": (np.maximum(opening, close) * beyond[0]).ravel(),
            "low": (np.minimum(opening, close) / beyond[1]).ravel(),
            "close": close.ravel(),
            "volume": generator.integers(100_000, 1_000_000, days * stocks),
        }
    )
