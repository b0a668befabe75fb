"""Peer: `openenv` 0.10, its server to its own synchronous client over TCP on this machine.

Runs in a virtual environment of its own. Options: ``kind``, of `openenv_models.KINDS`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator
from itertools import cycle, islice
from typing import Any

from benchmarks.drivers.common import ACTIONS, SEED, Round, child, serve
from benchmarks.drivers.openenv_models import KINDS, TrivialAction


def start(options: dict[str, Any]) -> Generator[Round, None, None]:
    """Start the server, connect, and yield the rounds."""
    _, client, _ = KINDS[options["kind"]]
    with (
        child("openenv_server", options["kind"], "1") as (address, _),
        client(address).sync() as env,
    ):
        draw = random.Random(SEED)
        actions = cycle([TrivialAction(action_id=draw.randrange(2)) for _ in range(ACTIONS)])
        env.reset()

        def take_round(steps: int) -> float:
            step, reset = env.step, env.reset
            begin = time.perf_counter()
            for action in islice(actions, steps):
                if step(action).done:
                    reset()
            return time.perf_counter() - begin

        yield take_round


if __name__ == "__main__":
    serve(start)
