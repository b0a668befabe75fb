"""Keyword arguments of ``gymnasium.make("openenv/FinRL-v0", ...)``, with defaults and checks.

Names and defaults are FinRL's where it has the option. What the data decide (the number of stocks,
the lengths of action and observation) is no option here.
"""

# No `from __future__ import annotations`: Pydantic needs the annotations themselves.

import datetime
import difflib
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from openenv_gym.errors import InvalidOptionError


__all__ = ["INDICATORS", "FinRLOptions", "GeneratorOptions", "parse_options"]

INDICATORS = (
    "macd",
    "boll_ub",
    "boll_lb",
    "rsi_30",
    "cci_30",
    "dx_30",
    "close_30_sma",
    "close_60_sma",
)
"""FinRL's indicators, by their names in stockstats."""

MAX_TICKERS = 512
"""Most stocks in a market."""

# At most four digits in a row: a window of 10**15 days would have memory set aside for it.
_INDICATOR = re.compile(r"(?!.*\d{5})[A-Za-z][\w.,~+-]{0,63}")


def _from_tuple(value: Any) -> Any:
    # Python's tuples and JSON's lists are taken alike.
    return list(value) if isinstance(value, tuple) else value


def _each_once(values: list[str]) -> list[str]:
    if twice := [value for value in values if values.count(value) > 1]:
        raise ValueError(f"each name once, {twice[0]!r:.80} is there more often")
    return values


def _indicator(name: str) -> str:
    if not _INDICATOR.fullmatch(name):
        raise ValueError(
            f"{name!r:.80} is no name of an indicator, such as 'rsi_30' or 'close_60_sma'"
        )
    return name


def _day(value: str) -> str:
    try:
        return datetime.date.fromisoformat(value).isoformat()
    except ValueError:
        raise ValueError("expected a day such as '2010-01-04'") from None


Day = Annotated[str, AfterValidator(_day)]
Fee = Annotated[float, Field(ge=0.0, lt=1.0)]
Fees = Fee | Annotated[list[Fee], BeforeValidator(_from_tuple), Field(min_length=1)]
Names = Annotated[list[str], BeforeValidator(_from_tuple), AfterValidator(_each_once)]
Indicators = Annotated[
    list[Annotated[str, AfterValidator(_indicator)]],
    BeforeValidator(_from_tuple),
    AfterValidator(_each_once),
    Field(max_length=64),
]


class _Checked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class FinRLOptions(_Checked):
    """All options but ``data``, ``rubric`` and ``render_mode``."""

    tickers: Annotated[Names, Field(min_length=1, max_length=MAX_TICKERS)] | None = Field(
        default=None, description="the stocks, in this order; None for all, in that of the alphabet"
    )
    start: Day | None = Field(
        default=None, description="first day of trading; indicators know the days before it"
    )
    end: Day | None = Field(default=None, description="last day of trading")
    missing: Literal["error", "drop", "forward"] = Field(
        default="error",
        description="what becomes of a day on which a stock has no price: an error, no day of "
        "trading, or the last price again",
    )
    tech_indicator_list: Indicators = Field(
        default=list(INDICATORS), description="indicators of stockstats, or columns of the data"
    )
    turbulence_threshold: float | None = Field(
        default=None,
        ge=0.0,
        description="from which turbulence on everything is sold and nothing bought",
    )
    turbulence_window: int = Field(
        default=252, ge=2, le=10_000, description="days of which the turbulence index knows"
    )
    risk_indicator_col: str | None = Field(
        default=None, description="column of the data to take for the turbulence"
    )
    initial_amount: float = Field(
        default=1_000_000.0, gt=0.0, le=1e12, description="cash at the beginning"
    )
    num_stock_shares: (
        Annotated[list[Annotated[int, Field(ge=0, le=10**9)]], BeforeValidator(_from_tuple)] | None
    ) = Field(default=None, description="shares of each stock at the beginning; None for none")
    hmax: int = Field(
        default=100, ge=1, le=10**6, description="most shares of a stock that a step trades"
    )
    buy_cost_pct: Fees = Field(
        default=0.001, description="fee of buying, as a fraction; or one for each stock"
    )
    sell_cost_pct: Fees = Field(
        default=0.001, description="fee of selling, as a fraction; or one for each stock"
    )
    reward_scaling: float = Field(
        default=1e-4, gt=0.0, description="what the change of value is multiplied by"
    )
    episode_length: int | None = Field(
        default=None, ge=1, description="steps after which an episode is cut off; None: never"
    )
    random_start: bool = Field(
        default=False, description="an episode begins on a day that the seed decides"
    )


class GeneratorOptions(_Checked):
    """What ``data={"generator": "gbm", ...}`` says: a market of geometric Brownian motions."""

    generator: Literal["gbm"] = "gbm"
    days: int = Field(default=504, ge=2, le=100_000, description="days of trading")
    stocks: int = Field(default=3, ge=1, le=MAX_TICKERS, description="number of stocks")
    seed: int = Field(default=0, ge=0, description="decides the prices")
    drift: float = Field(default=0.08, ge=-10.0, le=10.0, description="expected growth in a year")
    volatility: float = Field(default=0.2, ge=0.0, le=10.0, description="of a year")
    correlation: float = Field(
        default=0.3, ge=0.0, lt=1.0, description="of each two stocks' returns"
    )


def parse_options(model: type[Any], given: Mapping[str, Any], within: str = "") -> Any:
    """Check keyword arguments.

    Args:
        model: `FinRLOptions` or `GeneratorOptions`.
        given: The arguments.
        within: Option that they are part of.

    Returns:
        An instance of `model`, with defaults where nothing was given.

    Raises:
        InvalidOptionError: One is unknown or has a value that is not taken; ``field`` names it.
    """
    prefix = f"{within}." if within else ""
    known = list(model.model_fields)
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            raise InvalidOptionError(
                f"Unknown option {prefix + str(name)!r:.80}; there are {', '.join(known)}.",
                field=f"{prefix}{name}"[:80],
                hint=f"Did you mean {near[0]!r}?" if near else "Leave it out.",
            )
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        name = str(problem["loc"][0])
        what = str(problem["ctx"]["error"]) if problem["type"] == "value_error" else problem["msg"]
        raise InvalidOptionError(
            f"{prefix}{name}={given[name]!r:.80}: {what[0].lower()}{what[1:]}.",
            field=f"{prefix}{name}",
            hint=f"The option means: {model.model_fields[name].description}.",
        ) from None
