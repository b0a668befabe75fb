"""What a session had in memory goes with it."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from openenv_gym.client import Connection
from openenv_gym.providers import ServerTarget, get_provider
from openenv_gym.providers.thread import ThreadServer
from openenv_gym.server import Server, create_app
from tests.support.processes import memory_bytes
from tests.support.waiting import eventually
from tests.support.worlds import CountingEnv


@pytest.mark.parametrize("vector", [None, {"num_envs": 3}])
def test_an_environment_does_not_wait_for_the_garbage_collector(
    vector: dict[str, Any] | None,
) -> None:
    alive: weakref.WeakSet[CountingEnv] = weakref.WeakSet()

    def make() -> CountingEnv:
        env = CountingEnv()
        alive.add(env)
        return env

    server = ThreadServer(Server(create_app(make)))
    gc.disable()
    try:
        connection = Connection(server, {}, vector=vector)
        connection.call("reset", [None, None])
        connection.call("step", [1 if vector is None else np.ones(3, np.int64)])
        assert len(alive) == (1 if vector is None else 3)
        connection.close()
        assert eventually(lambda: not alive)
    finally:
        gc.enable()
        server.stop()


class KnottedEnv(CountingEnv):
    """Holds itself, and much memory."""

    def __init__(self) -> None:
        super().__init__()
        self.itself: Any = self
        self.much = [np.ones(2500) for _ in range(1000)]


def test_a_server_gives_memory_back_to_the_system() -> None:
    server: Any = get_provider("process").start(ServerTarget(f"{__name__}:KnottedEnv"))
    try:
        first = Connection(server.address, {})
        first.call("reset", [None, None])
        first.close()
        before = memory_bytes(server.pid)
        connections = [Connection(server.address, {}) for _ in range(10)]
        for connection in connections:
            connection.call("reset", [None, None])
        most = memory_bytes(server.pid)
        assert most - before > 100e6
        for connection in connections:
            connection.close()
        assert eventually(lambda: memory_bytes(server.pid) - before < 0.2 * (most - before), 30)
    finally:
        server.stop()
