"""Cash and shares, and what becomes of them when orders are carried out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


__all__ = ["Portfolio"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass
class Portfolio:
    """What an agent owns: never less than nothing, for there is no credit and no short sale.

    Attributes:
        cash: Money, at least 0.
        shares: Shares of each stock, of shape (stocks,), at least 0.
    """

    cash: float
    shares: Counts

    def value(self, prices: Floats) -> float:
        """Return cash and shares at `prices`."""
        return self.cash + float(self.shares @ prices)

    def trade(
        self, orders: Counts, prices: Floats, buy_fees: Floats, sell_fees: Floats
    ) -> tuple[Counts, float]:
        """Carry out orders: first all that sell, then those that buy, the largest first.

        Nobody sells more than is owned, nor buys more than what the cash pays with the fee; what
        goes beyond is left out. Orders of one size are carried out in the order of the stocks.

        Args:
            orders: Shares to buy of each stock, negative to sell.
            prices: Price of each stock.
            buy_fees: Fee of buying each stock, as a fraction of the price.
            sell_fees: Fee of selling each.

        Returns:
            Shares that were bought of each stock, negative where sold; and all fees.
        """
        traded = np.maximum(orders, -self.shares)
        paid = 0.0
        for stock in np.flatnonzero(traded < 0):
            amount = -int(traded[stock]) * float(prices[stock])
            fee = amount * float(sell_fees[stock])
            self.cash += amount - fee
            paid += fee
        for stock in np.argsort(-orders, kind="stable"):
            if orders[stock] <= 0:
                break
            price = float(prices[stock]) * (1.0 + float(buy_fees[stock]))
            count = min(int(orders[stock]), int(self.cash // price))
            if count * price > self.cash:  # by a rounding error
                count -= 1
            traded[stock] = count
            self.cash -= count * price
            paid += count * float(prices[stock]) * float(buy_fees[stock])
        self.shares = self.shares + traded
        return traded, paid
