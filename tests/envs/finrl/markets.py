"""Markets to trade in, and ways to trade."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from finrl_env.models import FinRLObservation
from finrl_env.server.finrl_environment import FinRLEnvironment
from openenv_gym.server.adapter import TypedEnv


DAYS = [f"2020-01-{day:02}" for day in range(1, 11)]

# Ten days of two stocks, the closing prices of the episode that is computed by hand.
A = [10.00, 10.50, 11.00, 10.80, 10.00, 9.50, 9.90, 10.40, 11.20, 11.00]
B = [50.00, 49.00, 51.00, 52.00, 48.00, 47.50, 47.00, 50.00, 51.50, 52.00]


def rows(**stocks: list[float]) -> list[dict[str, Any]]:
    """Return rows of closing prices, one day after the other."""
    count = len(next(iter(stocks.values())))
    return [
        {"date": DAYS[day], "tic": ticker, "close": prices[day]}
        for day in range(count)
        for ticker, prices in stocks.items()
    ]


def bare(data: Any = None, **options: Any) -> FinRLEnvironment:
    """Return an environment without indicators and fees, unless `options` say otherwise."""
    defaults = {"tech_indicator_list": [], "buy_cost_pct": 0.0, "sell_cost_pct": 0.0}
    data = rows(A=A, B=B) if data is None else data
    return FinRLEnvironment(data, **{**defaults, "reward_scaling": 1.0, **options})


def make(**options: Any) -> TypedEnv:
    return TypedEnv(FinRLEnvironment(**options))


def act(environment: FinRLEnvironment, *actions: float) -> FinRLObservation:
    """Take one step."""
    return environment.step(environment.action_model(actions=list(actions)))


def frame(days: int = 120, stocks: int = 2, seed: int = 1) -> pd.DataFrame:
    """Return prices that are made up, with all of FinRL's columns."""
    from finrl_env.options import GeneratorOptions
    from finrl_env.server.generator import generate

    return generate(GeneratorOptions(days=days, stocks=stocks, seed=seed))


def random_actions(env: Any, count: int, seed: int = 0) -> list[Any]:
    env.action_space.seed(seed)
    return [env.action_space.sample() for _ in range(count)]


def play(env: Any, actions: list[Any]) -> list[tuple[Any, ...]]:
    """Return what each step, and the reset after an end, gave."""
    results: list[tuple[Any, ...]] = []
    for action in actions:
        results.append(env.step(action))
        if results[-1][2] or results[-1][3]:
            results.append(env.reset())
    return results


def numbers(observation: FinRLObservation) -> list[float]:
    return np.asarray(observation.state).tolist()
