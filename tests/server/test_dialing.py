"""A server that dials its owner, as one in a container does."""

from __future__ import annotations

from pathlib import Path

import pytest

from openenv_gym import errors
from openenv_gym.client import Connection, InboundAddress
from openenv_gym.server import Server, create_app
from tests.support.worlds import CountingEnv


def test_an_owner_gets_as_many_connections_as_he_wants(tmp_path: Path) -> None:
    address = InboundAddress(str(tmp_path / "s"), "test")
    server = Server(create_app(CountingEnv))
    server.start()
    server.dial_owner(str(tmp_path / "s"))
    connections = [Connection(address, {}, timeout_s=10) for _ in range(5)]
    for number, connection in enumerate(connections):
        connection.call("reset", [None, None])
        assert connection.call("step", [number]).value[0]["count"].tolist() == [1, 1, number]
    assert not server.wait(0.1)
    for connection in connections:
        connection.close()
    address.close()
    assert server.wait(10)  # nobody listens any more, so it stops
    server.stop()
    assert list(tmp_path.iterdir()) == []


def test_a_session_is_resumed_on_the_next_connection(tmp_path: Path) -> None:
    address = InboundAddress(str(tmp_path / "s"), "test")
    server = Server(create_app(CountingEnv))
    server.start()
    server.dial_owner(str(tmp_path / "s"))
    connection = Connection(address, {}, timeout_s=10)
    connection.call("reset", [None, None])
    connection._drop()
    assert connection.call("step", [7]).value[0]["count"].tolist() == [1, 1, 7]
    connection.close()
    address.close()
    server.stop()


def test_nobody_to_dial(tmp_path: Path) -> None:
    server = Server(create_app(CountingEnv))
    server.start()
    with pytest.raises(errors.TransportError, match="Cannot reach the owner"):
        server.dial_owner(str(tmp_path / "nobody"))
    server.stop()
