"""A vector environment over several servers in this process; servers that several tests share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.images import image
from tests.vector.shared import SharedServers
from tests.vector.worlds import Fleet, GateEnv


@pytest.fixture
def fleet() -> Iterator[Callable[..., Fleet]]:
    made: list[Fleet] = []

    def make(*args: Any, **kwargs: Any) -> Fleet:
        made.append(Fleet(*args, **kwargs))
        return made[-1]

    yield make
    for each in made:
        each.env.close(terminate=True)
        for server in each.servers:
            server.stop()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What the steps of `GateEnv` wait for."""
    GateEnv.gate = threading.Event()
    yield GateEnv.gate
    GateEnv.gate.set()


@pytest.fixture(scope="session")
def containers(docker: Any) -> Iterator[SharedServers]:
    """A provider of containers that tests one after the other have their sessions in."""
    for package in ("gymnasium", "atari_env"):
        image(package)
    shared = SharedServers("docker")
    yield shared
    shared.stop()


@pytest.fixture(scope="session")
def processes() -> Iterator[SharedServers]:
    """Likewise of processes."""
    shared = SharedServers("process")
    yield shared
    shared.stop()
