"""Peer: several sessions of `openenv` 0.10 on one server, moved by its own asynchronous client.

Runs in a virtual environment of its own. Options: ``kind``, of `openenv_models.KINDS`, and
``num_envs``. In a round every session takes its steps one after the other and does not wait for
the rest: neither a step of all at a time nor a thread for each session was faster.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Generator
from itertools import cycle, islice
from time import perf_counter
from typing import Any

from benchmarks.drivers.common import ACTIONS, SEED, Round, child, serve
from benchmarks.drivers.openenv_models import KINDS, TrivialAction


def start(options: dict[str, Any]) -> Generator[Round, None, None]:
    """Start the server, connect, and yield the rounds."""
    kind, num_envs = options["kind"], options["num_envs"]
    _, client, _ = KINDS[kind]
    draw = random.Random(SEED)
    actions = cycle([TrivialAction(action_id=draw.randrange(2)) for _ in range(ACTIONS)])
    loop = asyncio.new_event_loop()

    async def walk(env: Any, steps: int) -> None:
        for action in islice(actions, steps):
            if (await env.step(action)).done:
                await env.reset()

    async def walk_all(envs: list[Any], steps: int) -> None:
        await asyncio.gather(*(walk(env, steps) for env in envs))

    async def connect(address: str) -> list[Any]:
        # No keep-alive pings: between its rounds a contender does not look for the answers.
        envs = [client(address, websocket_ping_interval_s=None) for _ in range(num_envs)]
        for env in envs:
            await env.connect()
            await env.reset()
        return envs

    async def close(envs: list[Any]) -> None:
        await asyncio.gather(*(env.close() for env in envs))

    with child("openenv_server", kind, str(num_envs)) as (address, _):
        envs = loop.run_until_complete(connect(address))

        def take_round(steps: int) -> float:
            begin = perf_counter()
            loop.run_until_complete(walk_all(envs, steps))
            return perf_counter() - begin

        yield take_round
        loop.run_until_complete(close(envs))
        loop.close()


if __name__ == "__main__":
    serve(start)
