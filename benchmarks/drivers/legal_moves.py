"""Plays an environment of `gymnasium.make` that has an action mask, hosted elsewhere or local.

Only what the mask leaves is played, since a refused action costs next to nothing. Options: ``id``,
``kwargs``, ``modules`` to import before.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Generator
from itertools import cycle, islice
from typing import Any

import gymnasium
import numpy as np

from benchmarks.drivers.common import ACTIONS, SEED, Round, serve


def start(options: dict[str, Any]) -> Generator[Round, None, None]:
    """Make the environment and yield its rounds."""
    for module in options["modules"]:
        importlib.import_module(module)
    env = gymnasium.make(options["id"], **options["kwargs"])
    try:
        draws = cycle(np.random.default_rng(SEED).random(ACTIONS).tolist())
        _, info = env.reset(seed=SEED)

        def take_round(steps: int) -> float:
            nonlocal info
            step, reset = env.step, env.reset
            begin = time.perf_counter()
            for draw in islice(draws, steps):
                legal = np.flatnonzero(info["action_mask"])
                _, _, terminated, truncated, info = step(legal[int(draw * len(legal))])
                if terminated or truncated:
                    _, info = reset()
            return time.perf_counter() - begin

        yield take_round
    finally:
        env.close()


if __name__ == "__main__":
    serve(start)
