"""A server that dials its owner, as one in a container does."""

from __future__ import annotations

import contextlib
import socket
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
    connections = [Connection(address, {}, timeout_s=60) for _ in range(5)]
    for number, connection in enumerate(connections):
        connection.call("reset", [None, None])
        assert connection.call("step", [number]).value[0]["count"].tolist() == [1, 1, number]
    assert not server.wait(0.1)
    for connection in connections:
        connection.close()
    address.close()
    assert server.wait(60)  # nobody listens any more, so it stops
    server.stop()
    assert list(tmp_path.iterdir()) == []


def test_a_session_is_resumed_on_the_next_connection(tmp_path: Path) -> None:
    address = InboundAddress(str(tmp_path / "s"), "test")
    server = Server(create_app(CountingEnv))
    server.start()
    server.dial_owner(str(tmp_path / "s"))
    connection = Connection(address, {}, timeout_s=60)
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


def test_who_does_not_show_the_key_is_not_the_server(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    address = InboundAddress(path, "test")
    impostors = []
    for shown in (b"", b"short", bytes(32), b"GET / HTTP/1.1\r\n\r\n" + bytes(32)):
        impostor = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        impostor.connect(path)
        impostor.sendall(shown)
        impostors.append(impostor)
    impostors[0].shutdown(socket.SHUT_WR)
    server = Server(create_app(CountingEnv))
    server.start()
    server.dial_owner(path)
    connection = Connection(address, {}, timeout_s=60)
    assert connection.call("reset", [None, None]).value[0]["count"].tolist() == [0, 1, 0]
    assert not (tmp_path / "s.key").exists()
    for impostor in impostors:
        with impostor, contextlib.suppress(ConnectionResetError):
            impostor.settimeout(60)
            assert impostor.recv(1) == b""
    connection.close()
    address.close()
    server.stop()


def test_an_owner_hears_at_once_that_the_server_has_died(tmp_path: Path) -> None:
    address = InboundAddress(str(tmp_path / "s"), "test")
    lost = errors.ServerDiedError("It fell over.", data={"log": "ouch"})
    with pytest.raises(errors.ServerDiedError, match="It fell over.\nLast lines.*\nouch"):
        Connection(address, {}, timeout_s=60, why_lost=lambda: lost)
    address.close()
