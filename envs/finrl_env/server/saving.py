"""An episode as plain data, and back."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from finrl_env.server.portfolio import Portfolio
from openenv_gym.server import SavedState


__all__ = ["SavedEpisode"]

_Day = Annotated[int, Field(ge=0, lt=1 << 31)]
_Money = Annotated[float, Field(allow_inf_nan=False)]


class SavedEpisode(SavedState):
    """What `FinRLEnvironment.save_state` returns: where an episode is; not the market.

    Attributes:
        begin: Day of the market on which it began.
        end: Day on which it will be cut off.
        cash: Cash that is owned.
        shares: Shares of each stock that are owned.
        values: What all that was worth, on each day from `begin` to the present one.
    """

    begin: _Day
    end: _Day
    cash: _Money = Field(ge=0)
    shares: list[Annotated[int, Field(ge=0, lt=1 << 63)]]
    values: list[_Money] = Field(min_length=1)

    @property
    def day(self) -> int:
        """The present day."""
        return self.begin + len(self.values) - 1

    @staticmethod
    def fields_of(portfolio: Portfolio) -> dict[str, Any]:
        """Return the fields that are a portfolio's."""
        return {"cash": portfolio.cash, "shares": portfolio.shares.tolist()}

    def portfolio(self, stocks: int, first: int, last: int) -> Portfolio:
        """Return what is owned.

        Args:
            stocks: How many there are in the market.
            first: First day that an episode may have.
            last: Last day.

        Raises:
            InvalidOptionError: It is no episode of the market.
        """
        if len(self.shares) != stocks:
            raise self.refusal(f"it is one of {len(self.shares)} stocks, and here are {stocks}")
        if not first <= self.begin <= self.day <= self.end <= last:
            raise self.refusal(f"its days are not from {first} to {last}")
        return Portfolio(self.cash, np.array(self.shares, np.int64))
