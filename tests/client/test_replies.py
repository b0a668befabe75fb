"""Replies that are too large, withheld, or nobody waits for."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.client import Connection
from openenv_gym.protocol.limits import Limits
from openenv_gym.providers.thread import ThreadServer
from openenv_gym.server import Server, create_app
from tests.client.scripted import connect, listen, say, upgrade, welcome
from tests.support.worlds import CountingEnv


def test_a_message_beyond_the_servers_limit_is_not_sent() -> None:
    server = ThreadServer(Server(create_app(CountingEnv), limits=Limits(max_frame_bytes=100_000)))
    connection = connect(server.address)
    with pytest.raises(errors.FrameTooLargeError, match="the server takes 100000"):
        connection.call("reset", [None, {"map": b"x" * 200_000}])
    assert connection.call("reset", [None, None]).value[0]["count"].tolist() == [0, 1, 0]
    connection.close()
    server.stop()


def test_a_reply_beyond_the_clients_limit_is_an_error() -> None:
    server = ThreadServer(Server(create_app(CountingEnv)))
    connection = Connection(
        server.address, {"payload_bytes": 200_000}, timeout_s=60, max_frame_bytes=100_000
    )
    with pytest.raises(errors.FrameTooLargeError):
        connection.call("reset", [None, None])
    connection.close()
    server.stop()


TOO_LARGE = b"\x82\x7f" + (200 << 20).to_bytes(8, "big")


@pytest.mark.parametrize("abandoned", [False, True])
def test_a_reply_beyond_the_limit_is_skipped(fake: Any, abandoned: bool) -> None:
    """Servers that send it all the same would send it again after each resume."""
    acks = []

    def script(sock: socket.socket) -> None:
        upgrade(sock)
        hear = listen(sock)
        resume = hear()[1].get("resume")
        if resume is not None:
            acks.append(resume["ack"])
            say(sock, 16, welcome(epoch=resume["epoch"], received=2 if abandoned else 1))
            if abandoned:
                say(sock, 17, 2, "good", [0, 0])
        else:
            say(sock, 16, welcome())
            hear()
            if abandoned:
                hear()
            sock.sendall(TOO_LARGE)
        while True:
            say(sock, 17, hear()[1], "good", [0, 0])

    connection = connect(fake(script))
    if abandoned:
        with pytest.raises(errors.DeadlineExceededError):
            connection.call("render", [], timeout_s=0.05)
    else:
        with pytest.raises(errors.FrameTooLargeError):
            connection.call("render", [])
    assert [connection.call("state", []).value for _ in range(3)] == ["good"] * 3
    assert acks == [1]
    connection.close()


def test_a_reply_that_the_server_withholds_is_an_error(fake: Any) -> None:
    def script(sock: socket.socket) -> None:
        upgrade(sock)
        hear = listen(sock)
        hear()
        say(sock, 16, welcome())
        say(sock, 18, hear()[1], {"code": "frame_too_large", "message": "too much"})
        say(sock, 17, hear()[1], "good", [0, 0])
        hear()

    connection = connect(fake(script))
    with pytest.raises(errors.FrameTooLargeError, match="too much"):
        connection.call("render", [])
    assert connection.call("state", []).value == "good"
    connection.close(0.1)


def test_extras_of_every_reply_are_handed_on(fake: Any) -> None:
    def script(sock: socket.socket) -> None:
        upgrade(sock)
        hear = listen(sock)
        hear()
        say(sock, 16, welcome())
        hear(), hear()
        say(sock, 17, 1, "late", [0, 0], {"rng": 1})
        say(sock, 18, 2, {"code": "environment_failed", "message": "no"}, {"rng": 2})
        hear()
        say(sock, 17, 3, "good", [0, 0], {"rng": 3})
        hear()

    connection = connect(fake(script))
    seen: list[Any] = []
    connection.on_extras = seen.append
    with pytest.raises(errors.DeadlineExceededError):
        connection.call("step", [1], timeout_s=0.05)
    with pytest.raises(errors.EnvironmentFailedError):
        connection.call("step", [2])
    assert seen == [{"rng": 1}, {"rng": 2}]
    assert connection.call("step", [3]).value == "good"
    assert seen == [{"rng": 1}, {"rng": 2}, {"rng": 3}]
    connection.close(0.1)


class GatedEnv(CountingEnv):
    """A step waits for the gate."""

    gate = threading.Event()

    def step(self, action: Any) -> Any:
        assert self.gate.wait(60)
        return super().step(action)


@pytest.mark.parametrize("halves", [False, True])
def test_who_gives_up_often_asks_no_more_than_the_server_takes(
    halves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request more, and the server would end the connection, also after each resume."""
    monkeypatch.setattr(GatedEnv, "gate", threading.Event())
    server = ThreadServer(Server(create_app(GatedEnv), limits=Limits(max_pipelined=4)))
    connection = connect(server.address, timeout_s=30)
    connection.call("reset", [None, None])
    for _ in range(10):
        with pytest.raises(errors.DeadlineExceededError):
            if not halves:
                connection.call("step", [1], timeout_s=0.02)
            pending = connection.begin("step", [1])
            assert connection.finish(pending, time.monotonic()) is None
            connection.abandon(pending)
            raise errors.DeadlineExceededError("as `Fleet` says")
    assert connection.under_way == 4
    GatedEnv.gate.set()
    assert connection.call("step", [2]).value[0]["count"].tolist() == [5, 1, 2]
    assert connection.finish(connection.begin("step", [3]), time.monotonic() + 30)
    connection.close()
    server.stop()
