# mypy: disable-error-code="import-not-found"
"""Peer: EnvPool, in a virtual environment of its own.

Options: ``id`` as EnvPool spells it, ``num_envs``.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from itertools import cycle, islice
from typing import Any

import envpool
import numpy as np

from benchmarks.drivers.common import SEED, Round, serve


def start(options: dict[str, Any]) -> Generator[Round, None, None]:
    """Make the environments and yield their rounds."""
    envs = envpool.make_gymnasium(options["id"], num_envs=options["num_envs"], seed=SEED)
    draw = np.random.default_rng(SEED)
    shape = (64, options["num_envs"])
    actions = cycle(draw.integers(envs.action_space.n, size=shape, dtype=np.int32))
    envs.reset()

    def take_round(steps: int) -> float:
        step = envs.step
        begin = time.perf_counter()
        for action in islice(actions, steps):
            step(action)
        return time.perf_counter() - begin

    yield take_round
    envs.close()


if __name__ == "__main__":
    serve(start)
