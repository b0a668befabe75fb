"""Drives PPO of ``examples/ppo.py``; a round is a training of so many steps of all environments.

Options: those of `vector_env`, and ``args``, which are some of ``ppo.Args``. Runs where there is
PyTorch.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Generator
from typing import Any

from benchmarks.drivers.common import SEED, Round, serve
from benchmarks.drivers.vector_env import MAKERS
from examples import ppo


def start(options: dict[str, Any]) -> Generator[Round, None, None]:
    """Make the environments and yield the trainings on them."""
    for module in options["modules"]:
        importlib.import_module(module)
    envs = MAKERS[options["kind"]](options)
    try:

        def take_round(steps: int) -> float:
            num_envs = options["num_envs"]
            args = ppo.Args(
                num_envs=num_envs, total_timesteps=steps * num_envs, seed=SEED, **options["args"]
            )
            begin = time.perf_counter()
            ppo.train(envs, args)
            return time.perf_counter() - begin

        yield take_round
    finally:
        envs.close()


if __name__ == "__main__":
    serve(start)
