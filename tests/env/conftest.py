"""Fixtures: remote environments over a server in this process."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import pytest

from openenv_gym.client import Connection
from openenv_gym.env import RemoteEnv
from openenv_gym.providers.thread import ThreadProvider
from openenv_gym.server import create_app


Remote = Callable[..., RemoteEnv]


@pytest.fixture
def remote() -> Iterator[Remote]:
    """Return a function that serves what a factory makes and connects to it."""
    made: list[RemoteEnv] = []

    def make(factory: Callable[..., gymnasium.Env[Any, Any]], **options: Any) -> RemoteEnv:
        timeout_s = options.pop("timeout_s", 30.0)
        observables = options.pop("observables", ())
        server = ThreadProvider().serve(
            dataclasses.replace(create_app(factory), observables=lambda _: observables)
        )
        try:
            connection = Connection(server.address, options, timeout_s=timeout_s)
        except BaseException:
            server.stop()
            raise
        env = RemoteEnv(connection, release=server.stop)
        made.append(env)
        return env

    yield make
    for env in made:
        env.close()
