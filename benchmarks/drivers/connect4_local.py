"""Drives Connect Four in this process, as a `gymnasium.Env` without a server.

Options: ``kwargs``.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from itertools import cycle, islice
from typing import Any

from benchmarks.drivers.common import ACTIONS, SEED, Round, serve
from connect4_env.server.connect4_environment import Connect4Environment
from openenv_gym.server.adapter import TypedEnv


def start(options: dict[str, Any]) -> Generator[Round, None, None]:
    """Make the environment and yield its rounds."""
    env = TypedEnv(Connect4Environment(**options["kwargs"]))
    env.action_space.seed(SEED)
    actions = cycle([env.action_space.sample() for _ in range(ACTIONS)])
    env.reset(seed=SEED)

    def take_round(steps: int) -> float:
        begin = time.perf_counter()
        for action in islice(actions, steps):
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        return time.perf_counter() - begin

    yield take_round


if __name__ == "__main__":
    serve(start)
