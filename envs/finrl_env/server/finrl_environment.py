"""The stock-trading environment itself."""

from __future__ import annotations

import bisect
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from finrl_env.models import (
    FinRLAction,
    FinRLObservation,
    FinRLState,
    action_model,
    observation_model,
)
from finrl_env.options import FinRLOptions, parse_options
from finrl_env.server.market import Market, make_market
from finrl_env.server.portfolio import Portfolio
from finrl_env.server.prices import read_prices
from finrl_env.server.saving import SavedEpisode
from openenv_gym.errors import InvalidActionError, InvalidOptionError, ResetNeededError
from openenv_gym.rubrics import load_rubric
from openenv_gym.server import Environment, check_choice


__all__ = ["FinRLEnvironment"]


class FinRLEnvironment(Environment[FinRLAction, FinRLObservation, FinRLState]):
    """Trade stocks once a day at the closing price, and be paid for what the portfolio gains.

    The problem is FinRL's: X.-Y. Liu et al., *FinRL: A Deep Reinforcement Learning Library for
    Automated Stock Trading in Quantitative Finance*, 2020, arXiv 2011.09607. An agent that sees
    the close of day t orders shares, which are sold and bought at the close of day t; the reward
    is what its portfolio, fees included, gained from the close of day t to that of day t + 1. The
    step that reaches the last day is cut off (`truncated`). No episode terminates: without credit
    and short sales a portfolio is worth something as long as prices are above 0.

    Args:
        data: Prices; see `finrl_env.server.prices.read_prices`.
        rubric: What judges the steps in place of the gain: None, a `Rubric`, or
            ``"module:attribute"``.
        render_mode: ``"rgb_array"``, ``"ansi"`` or None.
        **options: Those of `FinRLOptions`.

    Raises:
        InvalidOptionError: An option, or something in the data, cannot be used.
    """

    action_model = FinRLAction
    observation_model = FinRLObservation
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 10}

    def __init__(
        self,
        data: Any = "sample",
        *,
        rubric: Any = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        check_choice("render_mode", render_mode, ("ansi", "rgb_array", None))
        self.render_mode = render_mode
        self._options: FinRLOptions = parse_options(FinRLOptions, options)
        extra = [*self._options.tech_indicator_list, self._options.risk_indicator_col]
        prices = read_prices(
            data,
            tickers=self._options.tickers,
            missing=self._options.missing,
            extra=[name for name in extra if name is not None],
        )
        self._market = make_market(prices, self._options)
        self._first, self._last = _window(self._market, self._options)
        stocks = len(self._market.tickers)
        self._buy_fees = self._for_each("buy_cost_pct", self._options.buy_cost_pct)
        self._sell_fees = self._for_each("sell_cost_pct", self._options.sell_cost_pct)
        owned = self._options.num_stock_shares
        owned = [0] * stocks if owned is None else owned
        self._owned = self._for_each("num_stock_shares", owned).astype(np.int64)
        self.action_model = action_model(stocks)
        self.observation_model = observation_model(stocks, len(self._options.tech_indicator_list))
        self.rubric = load_rubric(rubric)
        # Day of the market on which the episode began, on which it will end, and today's.
        self._begin = self._end = self._day = 0
        self._portfolio = Portfolio(0.0, self._owned)
        self._values: list[float] = []  # of the portfolio, on each day of the episode

    def _for_each(self, name: str, value: Any) -> NDArray[np.float64]:
        """Return an option's number for each stock.

        Raises:
            InvalidOptionError: It has another number of numbers.
        """
        stocks = len(self._market.tickers)
        if isinstance(value, list) and len(value) != stocks:
            raise InvalidOptionError(
                f"{name}={value!r:.80}: expected {stocks} numbers, one for each of "
                f"{', '.join(self._market.tickers)[:80]}.",
                field=name,
            )
        return np.broadcast_to(np.asarray(value, np.float64), (stocks,))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> FinRLObservation:
        """Begin an episode: on the first day, or with ``random_start`` on one that is drawn.

        There are no options.

        Raises:
            InvalidOptionError: There is an option.
        """
        self.check_reset_options(options)
        self.begin_episode(seed)
        length = self._options.episode_length
        self._begin = self._first
        if self._options.random_start:
            latest = self._last - (length or 1)
            self._begin = int(self.np_random.integers(self._first, latest + 1))
        self._end = self._last if length is None else min(self._begin + length, self._last)
        self._day = self._begin
        self._portfolio = Portfolio(self._options.initial_amount, self._owned)
        self._values = [self._portfolio.value(self._prices)]
        return self._observation(None, np.zeros_like(self._owned), 0.0)

    def step(self, action: FinRLAction) -> FinRLObservation:
        """Trade at today's close, and go on to that of the next day."""
        if not self._values or self._day == self._end:
            raise ResetNeededError("The episode is over, or none has begun.", hint="Call reset().")
        wanted = np.asarray(action.actions, np.float64)
        if wanted.shape != self._owned.shape or not np.all(np.abs(wanted) <= 1.0):
            raise InvalidActionError(
                f"actions={wanted.tolist()!r:.80}: expected {self._owned.size} numbers from -1 to "
                "1.",
                field="actions",
            )
        orders = np.rint(wanted * self._options.hmax).astype(np.int64)
        if self._is_turbulent:
            orders = -self._portfolio.shares
        traded, cost = self._portfolio.trade(orders, self._prices, self._buy_fees, self._sell_fees)
        self._day += 1
        self.count_step()
        self._values.append(self._portfolio.value(self._prices))
        gain = self._values[-1] - self._values[-2]
        return self._observation(gain * self._options.reward_scaling, traded, cost)

    @property
    def _prices(self) -> NDArray[np.float64]:
        """Today's closing prices, of shape (stocks,)."""
        prices: NDArray[np.float64] = self._market.close[self._day]
        return prices

    @property
    def _is_turbulent(self) -> bool:
        threshold, turbulence = self._options.turbulence_threshold, self._market.turbulence
        if threshold is None or turbulence is None:
            return False
        return bool(turbulence[self._day] >= threshold)

    def _held(self) -> NDArray[np.float64]:
        """Return what buy-and-hold is worth on each day so far.

        The portfolio of the first day is put into all stocks, the same amount into each, in parts
        of shares and without fees.
        """
        close = self._market.close[self._begin : self._day + 1]
        growth: NDArray[np.float64] = (close / close[0]).mean(axis=1)
        return self._values[0] * growth

    def _observation(
        self, reward: float | None, traded: NDArray[np.int64], cost: float
    ) -> FinRLObservation:
        market, portfolio = self._market, self._portfolio
        stocks = len(market.tickers)
        state = np.empty(1 + 2 * stocks + market.indicators.shape[1], np.float32)
        state[0] = portfolio.cash
        state[1 : 1 + stocks] = self._prices
        state[1 + stocks : 1 + 2 * stocks] = portfolio.shares
        state[1 + 2 * stocks :] = market.indicators[self._day]
        growth = self._prices / market.close[self._begin]
        info = {
            "date": market.dates[self._day],
            "portfolio_value": self._values[-1],
            "buy_and_hold": self._values[0] * float(growth.mean()),
            "cash": portfolio.cash,
            "shares": portfolio.shares.copy(),
            "traded": traded,
            "cost": cost,
        }
        if market.turbulence is not None:
            info["turbulence"] = float(market.turbulence[self._day])
        over = self._day == self._end
        # Not validated: all of it is made here.
        return self.observation_model.model_construct(
            state=state, reward=reward, done=over, truncated=over, metadata=info
        )

    @property
    def state(self) -> FinRLState:
        """The market and the account."""
        market, options = self._market, self._options
        return FinRLState(
            episode_id=self._episode_id,
            step_count=self._step_count,
            stock_dim=len(market.tickers),
            initial_amount=options.initial_amount,
            action_space=len(market.tickers),
            state_space=1 + 2 * len(market.tickers) + market.indicators.shape[1],
            tech_indicators=list(options.tech_indicator_list),
            tickers=list(market.tickers),
            hmax=options.hmax,
            buy_cost_pct=self._buy_fees.tolist(),
            sell_cost_pct=self._sell_fees.tolist(),
            reward_scaling=options.reward_scaling,
            turbulence_threshold=options.turbulence_threshold,
            first_date=market.dates[self._first],
            last_date=market.dates[self._last],
            date=market.dates[self._day] if self._values else "",
            cash=self._portfolio.cash,
            shares=self._portfolio.shares.tolist(),
            portfolio_value=self._values[-1] if self._values else 0.0,
        )

    def json_schemas(self) -> dict[str, Any]:
        """Return JSON Schemas; that of the observation has value and date as well."""
        observation = self.observation_model.model_json_schema(mode="serialization")
        return {**super().json_schemas(), "observation": observation}

    def render(self) -> Any:
        """Return a chart, (360, 640, 3) uint8, or a line of text; None without a render mode."""
        if self.render_mode is None or not self._values:
            return None
        if self.render_mode == "rgb_array":
            from finrl_env.server.chart import draw_chart

            dates = self._market.dates[self._begin], self._market.dates[self._day]
            steps = self._end - self._begin
            return draw_chart(self._values, self._held().tolist(), dates, steps)
        owned = (
            f"{ticker} {count} at {price:,.2f}"
            for ticker, count, price in zip(
                self._market.tickers, self._portfolio.shares, self._prices, strict=True
            )
        )
        return (
            f"{self._market.dates[self._day]}  value {self._values[-1]:,.2f}  "
            f"buy and hold {self._held()[-1]:,.2f}  cash {self._portfolio.cash:,.2f}  "
            f"{'  '.join(owned)}"
        )

    def save_state(self) -> dict[str, Any]:
        """Return where the episode is, what is owned, and the generator; not the market."""
        return SavedEpisode.of(
            self,
            {"market": self._market.digest},
            begin=self._begin,
            end=self._end,
            values=list(self._values),
            **SavedEpisode.fields_of(self._portfolio),
        )

    def restore_state(self, saved: Any) -> None:
        """Return to a state that `save_state` returned, here or in another process.

        Raises:
            InvalidOptionError: It is no such state, or one of another market.
        """
        state = SavedEpisode.read(saved, {"market": self._market.digest})
        portfolio = state.portfolio(len(self._market.tickers), self._first, self._last)
        self._begin, self._end, self._day = state.begin, state.end, state.day
        self._portfolio, self._values = portfolio, state.values
        state.apply(self)


def _window(market: Market, options: FinRLOptions) -> tuple[int, int]:
    """Return the first and the last day on which `options` let an episode be.

    Raises:
        InvalidOptionError: There are not two such days, or too few for ``episode_length``.
    """
    days = [date[:10] for date in market.dates]  # without their hours; in order as text, too
    first, last = market.first, len(days) - 1
    if options.start is not None:
        first = max(first, bisect.bisect_left(days, options.start))
    if options.end is not None:
        last = bisect.bisect_right(days, options.end) - 1
    if last - first < 1:
        field = "start" if options.start else "end" if options.end else "data"
        known = f"from {days[market.first]} to {days[-1]}" if market.first < len(days) else "never"
        raise InvalidOptionError(
            f"start={options.start!r}, end={options.end!r}: fewer than two days lie there on which "
            f"prices and all indicators are known, which they are {known}.",
            field=field,
        )
    if options.episode_length is not None and options.episode_length > last - first:
        raise InvalidOptionError(
            f"episode_length={options.episode_length}: there are {last - first} steps from "
            f"{market.dates[first]} to {market.dates[last]}.",
            field="episode_length",
        )
    return first, last
