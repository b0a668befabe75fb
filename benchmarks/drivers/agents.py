"""Drives an environment with several agents, whether it is hosted elsewhere or local.

Options: ``target``, as `openenv_gym.pettingzoo` takes it; ``local``, ``module:attribute`` that
makes it in this process; ``kwargs``. A step is one of any agent, at random among what is legal.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Generator
from typing import Any

import numpy as np

from benchmarks.drivers.common import SEED, Round, serve


def start(options: dict[str, Any]) -> Generator[Round, None, None]:
    """Make the environment and yield its rounds."""
    env = _make(options)
    try:
        generator = np.random.default_rng(SEED)
        env.reset(seed=SEED)

        def take_round(steps: int) -> float:
            begin = time.perf_counter()
            for _ in range(steps):
                observation, _, terminated, truncated, _ = env.last()
                if terminated or truncated:
                    env.step(None)
                    if not env.agents:
                        env.reset()
                else:
                    legal = np.flatnonzero(observation["action_mask"])
                    env.step(int(legal[generator.integers(len(legal))]))
            return time.perf_counter() - begin

        yield take_round
    finally:
        env.close()


def _make(options: dict[str, Any]) -> Any:
    if "local" in options:
        module, _, attribute = options["local"].partition(":")
        return getattr(importlib.import_module(module), attribute)(**options["kwargs"])
    from openenv_gym.pettingzoo import aec_env

    return aec_env(options["target"], **options["kwargs"])


if __name__ == "__main__":
    serve(start)
