"""Swarms of one node and of three, and servers on them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openenv_gym.client import Connection
from openenv_gym.doctor.attack import room
from openenv_gym.providers import ServerTarget, SwarmProvider
from openenv_gym.providers.swarm import SwarmServer
from tests.support.engines import archive_of, docker_client, missing
from tests.support.images import image
from tests.support.waiting import eventually
from tests.testbed.swarm import Swarm, swarm, why_not


# By name, an image that is there already; else one of the source that is here.
IMAGE_VARIABLE = "OPENENV_SWARM_IMAGE"
ATTACKER = "openenv-gym-attacker:test"
_ATTACKER_FILE = Path(room.__file__)

MakeServer = Callable[..., SwarmServer]


@pytest.fixture(scope="session")
def swarm_image() -> str:
    """Name of an image with Gymnasium's plainer environments: what all images begin with."""
    return os.environ.get(IMAGE_VARIABLE) or image("base")


def _up(nodes: int, name: str) -> Iterator[Swarm]:
    if problem := why_not():
        missing("docker", problem)
    dockerfile = f"FROM {name}\nCOPY attacker.py /opt/attacker/\nENV PYTHONPATH=/opt/attacker\n"
    files = {"Dockerfile": dockerfile.encode(), "attacker.py": _ATTACKER_FILE.read_bytes()}
    source = docker_client()
    try:
        with swarm(nodes) as made:
            made.load(source, name)
            for client in made.nodes:
                client.images.build(
                    fileobj=archive_of(files), custom_context=True, tag=ATTACKER, rm=True
                )
            yield made
    finally:
        source.close()


@pytest.fixture(scope="session")
def one_node(swarm_image: str) -> Iterator[Swarm]:
    yield from _up(1, swarm_image)


@pytest.fixture(scope="session")
def three_nodes(swarm_image: str) -> Iterator[Swarm]:
    yield from _up(3, swarm_image)


@pytest.fixture
def one(one_node: Swarm, monkeypatch: pytest.MonkeyPatch) -> Iterator[Swarm]:
    """A swarm of one node, which this process uses, and on which the test must leave nothing."""
    yield from _used(one_node, monkeypatch)


@pytest.fixture
def three(three_nodes: Swarm, monkeypatch: pytest.MonkeyPatch) -> Iterator[Swarm]:
    """Likewise, one of three nodes."""
    yield from _used(three_nodes, monkeypatch)


def _used(made: Swarm, monkeypatch: pytest.MonkeyPatch) -> Iterator[Swarm]:
    monkeypatch.setenv("DOCKER_HOST", made.host)
    yield made
    gone = eventually(lambda: not made.leftovers(), 60)
    found = [] if gone else made.leftovers()
    if not gone:  # which is not the next test's fault
        for service in made.manager.services.list():
            service.remove()
        for secret in made.manager.secrets.list():
            secret.remove()
    assert found == []


@pytest.fixture
def provider(swarm_image: str) -> Callable[..., SwarmProvider]:
    """Return a function that makes a provider which plays what the swarms have."""

    def make(**kwargs: Any) -> SwarmProvider:
        return SwarmProvider(**{"image": swarm_image, "drain_s": 1.0, **kwargs})

    return make


@pytest.fixture
def attacker() -> Iterator[MakeServer]:
    """Return a function that starts a server which runs given code."""
    servers: list[SwarmServer] = []

    def make(target: ServerTarget | None = None, **kwargs: Any) -> SwarmServer:
        provider = SwarmProvider(image=ATTACKER, drain_s=1.0, **kwargs)
        server = provider.start(target or ServerTarget("attacker:app"))
        assert isinstance(server, SwarmServer)
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.stop()


class Inside:
    """A session in which Python code runs inside the server's process."""

    def __init__(self, server: SwarmServer) -> None:
        self._connection = Connection(
            server.address, {}, token=server.token, why_lost=server.why_lost, timeout_s=60
        )
        self._connection.call("reset", [None, None])

    def run(self, code: str) -> Any:
        """Run code; return what it leaves in `result`, or its exception as text."""
        return self._connection.call("step", [code]).value[4]["result"]

    def close(self) -> None:
        self._connection.close()
