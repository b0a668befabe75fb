"""The turbulence index: how unusual a day's returns are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


__all__ = ["turbulence_index"]


def turbulence_index(close: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Return the squared Mahalanobis distance of each day's returns from those before it.

    d(t) = (y(t) - m) S**-1 (y(t) - m)', where y(t) are the returns of all stocks from day t - 1
    to day t, and m and S the mean and covariance of y in the `window` days before t. Where
    returns are not independent, as of a stock whose price stands still, S has no inverse, and its
    pseudoinverse takes the place.

    M. Kritzman and Y. Li, *Skulls, Financial Turbulence, and Risk Management*, Financial Analysts
    Journal 66(5), 2010, equation 1.

    Args:
        close: Closing prices, of shape (days, stocks).
        window: Number of returns that a day is compared with.

    Returns:
        Shape (days,); 0 on the first ``window + 1`` days, of which too little is known.
    """
    returns = close[1:] / close[:-1] - 1.0
    index = np.zeros(len(close))
    for day in range(window + 1, len(close)):
        past = returns[day - 1 - window : day - 1]
        unusual = returns[day - 1] - past.mean(axis=0)
        covariance = np.atleast_2d(np.cov(past, rowvar=False))
        index[day] = unusual @ np.linalg.pinv(covariance, hermitian=True) @ unusual
    # A pseudoinverse may be negative by a rounding error.
    return np.maximum(index, 0.0)
