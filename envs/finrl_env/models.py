"""What goes in and out of a market.

Names and fields are OpenEnv's. The classes here fit any number of stocks; `action_model` and
`observation_model` make those of one environment, whose lengths are fixed. Each has one field
that is a space, so that trainers see a plain ``Box`` in and a plain ``Box`` out: value and date
stand in the observation of typed clients and in ``info``, not in what the agent learns from.
"""

# No `from __future__ import annotations`: Pydantic needs the annotations themselves.

import functools
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, computed_field, create_model, model_validator

from openenv_gym.models import Action, Array, Observation, State


__all__ = [
    "FinRLAction",
    "FinRLObservation",
    "FinRLState",
    "action_model",
    "observation_model",
]

_NOTED = ("portfolio_value", "date")
"""What a typed observation shows of its metadata."""


def _as_list(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


class FinRLAction(Action):
    """What to trade of each stock: 1 buys, -1 sells as many shares as may be traded at once.

    Attributes:
        actions: For each stock a number from -1 (sell ``hmax`` shares) to 1 (buy ``hmax``
            shares), rounded to whole shares. In Gymnasium of shape (stocks,), float32.
    """

    actions: Annotated[
        list[Annotated[float, Field(ge=-1.0, le=1.0)]], BeforeValidator(_as_list)
    ] = Field(min_length=1, description="Of each stock: 1 buys hmax shares, -1 sells as many")


class FinRLObservation(Observation):
    """The market at the close of a day, and what the agent owns.

    Attributes:
        state: Cash; the price of each stock; the shares of each; and each indicator of each
            stock (the first indicator of all stocks, then the second). In Gymnasium of shape
            (1 + 2 * stocks + indicators * stocks,), float32.
    """

    state: Annotated[list[float], BeforeValidator(_as_list)] = Field(
        description="Cash, prices, shares, indicators"
    )

    @model_validator(mode="before")
    @classmethod
    def _note(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not any(name in data for name in _NOTED):
            return data
        fields = {name: value for name, value in data.items() if name not in _NOTED}
        noted = {name: data[name] for name in _NOTED if name in data}
        return {**fields, "metadata": {**(data.get("metadata") or {}), **noted}}

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated properties
    @property
    def portfolio_value(self) -> float:
        """Cash and shares at the day's closing prices."""
        return float(self.metadata.get("portfolio_value", 0.0))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def date(self) -> str:
        """The day, such as ``2010-01-04``."""
        return str(self.metadata.get("date", ""))


class FinRLState(State):
    """The market and the account; the first five names are those of OpenEnv's ``/config``.

    Attributes:
        stock_dim: Number of stocks.
        initial_amount: Cash at the beginning of an episode.
        action_space: Length of an action.
        state_space: Length of an observation.
        tech_indicators: Names of the indicators, in their order.
        tickers: Names of the stocks, in their order.
        hmax: Most shares of one stock that a step trades.
        buy_cost_pct: Fee of buying each stock, as a fraction of the price.
        sell_cost_pct: Fee of selling each stock.
        reward_scaling: What a change of value is multiplied by.
        turbulence_threshold: From which turbulence on everything is sold; None for never.
        first_date: First day on which an episode may begin.
        last_date: Last day of the data, or of the chosen range.
        date: The present day.
        cash: Money that is not invested.
        shares: Shares of each stock.
        portfolio_value: Cash and shares at the day's closing prices.
    """

    stock_dim: int = 0
    initial_amount: float = 0.0
    action_space: int = 0
    state_space: int = 0
    tech_indicators: list[str] = Field(default_factory=list)
    tickers: list[str] = Field(default_factory=list)
    hmax: int = 0
    buy_cost_pct: list[float] = Field(default_factory=list)
    sell_cost_pct: list[float] = Field(default_factory=list)
    reward_scaling: float = 1.0
    turbulence_threshold: float | None = None
    first_date: str = ""
    last_date: str = ""
    date: str = ""
    cash: float = 0.0
    shares: list[int] = Field(default_factory=list)
    portfolio_value: float = 0.0


# Cached, so that all sessions of a market share one class: making a model takes milliseconds.
@functools.lru_cache(maxsize=64)
def action_model(stocks: int) -> type[FinRLAction]:
    """Return the action model for so many stocks."""
    form = Array(shape=(stocks,), dtype="float32", low=-1.0, high=1.0)
    text = FinRLAction.model_fields["actions"].description
    return create_model(
        "FinRLAction",
        __base__=FinRLAction,
        __module__=__name__,
        __doc__=FinRLAction.__doc__,
        actions=(Annotated[NDArray[np.float32], form], Field(description=text)),
    )


@functools.lru_cache(maxsize=64)
def observation_model(stocks: int, indicators: int) -> type[FinRLObservation]:
    """Return the observation model for so many stocks with so many indicators each.

    Cash, prices and shares are never below 0. Nothing bounds them above, and nothing bounds an
    indicator; but every number is finite.
    """
    low = [0.0] * (1 + 2 * stocks) + [-np.inf] * (indicators * stocks)
    form = Array(shape=(len(low),), dtype="float32", low=low)
    text = FinRLObservation.model_fields["state"].description
    return create_model(
        "FinRLObservation",
        __base__=FinRLObservation,
        __module__=__name__,
        __doc__=FinRLObservation.__doc__,
        state=(Annotated[NDArray[np.float32], form], Field(description=text)),
    )
