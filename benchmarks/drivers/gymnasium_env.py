"""Drives an environment of `gymnasium.make`, whether it is hosted elsewhere or local.

Options: ``id``, ``kwargs``, ``modules`` to import before.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Generator
from itertools import cycle, islice
from typing import Any

import gymnasium

from benchmarks.drivers.common import ACTIONS, SEED, Round, serve


def start(options: dict[str, Any]) -> Generator[Round, None, None]:
    """Make the environment and yield its rounds."""
    for module in options["modules"]:
        importlib.import_module(module)
    env = gymnasium.make(options["id"], **options["kwargs"])
    try:
        env.action_space.seed(SEED)
        actions = cycle([env.action_space.sample() for _ in range(ACTIONS)])
        env.reset(seed=SEED)

        def take_round(steps: int) -> float:
            step, reset = env.step, env.reset
            begin = time.perf_counter()
            for action in islice(actions, steps):
                _, _, terminated, truncated, _ = step(action)
                if terminated or truncated:
                    reset()
            return time.perf_counter() - begin

        yield take_round
    finally:
        env.close()


if __name__ == "__main__":
    serve(start)
