"""Clients and environments that mean harm, or might as well."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from typing import Any

import gymnasium
import numpy as np
import pytest

from openenv_gym.client.transport import encode_message
from openenv_gym.protocol.limits import Limits
from tests.server.conftest import RawClient, Site
from tests.support.waiting import eventually
from tests.support.worlds import CountingEnv


def opened(site: Site, **options: Any) -> RawClient:
    client = site.client()
    assert client.open(**options)[0] == 16
    client.send(1, 1, 0, "reset", [None, None])
    assert client.receive()[:2] == [17, 1]
    return client


def bytes_of(*message: Any) -> bytes:
    return b"".join(encode_message(list(message)))


# -- what was received is done, whatever follows it ---------------------------------------------


def test_a_request_before_garbage_still_runs(site: Site) -> None:
    server = site.start()
    client = site.client()
    welcome = client.open()[1]
    garbage = b"\x82\x85\x00\x00\x00\x00\xff\xff\xff\xff\xff"
    client.transport._socket.sendall(bytes_of(1, 1, 0, "reset", [None, None]) + garbage)
    with contextlib.suppress(OSError):  # until the server is done with it
        while client.receive():
            pass
    again = site.client()
    resume = {"session": welcome["session"], "token": welcome["token"], "epoch": 2, "ack": 0}
    again.send(0, {"version": [1, 0], "resume": resume})
    assert again.receive()[1]["received"] == 1
    assert again.receive()[:2] == [17, 1]
    again.send(1, 2, 1, "step", [1])
    assert again.receive()[:2] == [17, 2]
    assert len(server.sessions) == 1


def test_a_hello_before_a_misplaced_request_leaks_no_place(site: Site) -> None:
    site.start(capacity=1)
    hello = bytes_of(0, {"version": [1, 0], "open": {"options": {}}})
    for _ in range(3):
        client = site.client()
        client.transport._socket.sendall(hello + bytes_of(1, 1, 0, "reset", [None, None]))
        assert client.receive()[2]["code"] == "protocol_error"
        client.close()
    end_s = time.monotonic() + 60
    while site.client().open()[0] != 16:
        assert time.monotonic() < end_s, "the place was lost"
        time.sleep(0.02)


@pytest.mark.parametrize("ack", [-(2**62), -1, 2, 2**62])
def test_acknowledging_what_never_was(site: Site, ack: int) -> None:
    site.start()
    client = site.client()
    welcome = client.open()[1]
    client.send(3, ack)
    assert client.receive()[2]["code"] == "protocol_error"
    again = site.client()
    resume = {"session": welcome["session"], "token": welcome["token"], "epoch": 2, "ack": ack}
    again.send(0, {"version": [1, 0], "resume": resume})
    assert again.receive()[2]["code"] == "protocol_error"


# -- clients that do not read -------------------------------------------------------------------


def test_replies_that_nobody_reads_stop_the_work(site: Site) -> None:
    total = 0

    class Talking(CountingEnv):
        def step(self, action: Any) -> Any:
            nonlocal total
            total += 1
            return super().step(action)

    server = site.start(Talking)
    client = opened(site, payload_bytes=500_000)
    for id_ in range(2, 60):
        client.send(1, id_, id_ - 1 if id_ < 3 else 1, "step", [id_])
    time.sleep(0.5)
    assert total < 20  # 10 MB; the rest waits for room
    (connection,) = [c for c in server._connections if c.session is not None]
    assert connection._outbox.size_bytes < 2_000_000
    replies = [client.receive() for _ in range(58)]
    assert [reply[1] for reply in replies] == list(range(2, 60))
    assert total == 58


def test_pings_that_nobody_reads_stop_being_answered(site: Site) -> None:
    server = site.start()
    client = opened(site)
    ping = b"\x89\xfd\x00\x00\x00\x00" + b"x" * 125
    client.transport._socket.settimeout(0.5)
    with pytest.raises(TimeoutError):  # the server reads no more, and our own buffer is full
        for _ in range(60):
            client.transport._socket.sendall(ping * 1000)
    (connection,) = [c for c in server._connections if c.session is not None]
    assert connection._outbox.size_bytes < 2_000_000


def test_before_hello_little_is_taken(site: Site) -> None:
    site.start()
    client = site.client()
    client.transport._socket.sendall(b"\x82\xff" + (2 << 20).to_bytes(8, "big") + b"mask")
    assert client.receive()[2]["code"] == "frame_too_large"


def test_a_client_that_left_the_queue_gets_no_place(site: Site) -> None:
    server = site.start(capacity=1, max_waiting=1)
    first, second = site.client(), site.client()
    first.open()
    second.send(0, {"version": [1, 0], "open": {"options": {}, "wait_s": 3600.0}})
    assert eventually(lambda: bool(server.sessions._waiting))
    second.close()
    assert eventually(lambda: not server.sessions._waiting)
    first.send(1, 1, 0, "close", [])
    first.receive()
    assert eventually(lambda: len(server.sessions) == 0)


# -- environments ---------------------------------------------------------------------------------


class BrokenText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Wicked(CountingEnv):
    """Raises what no library should have to expect."""

    def step(self, action: Any) -> Any:
        if action == 1:
            sys.exit(3)
        if action == 2:
            raise KeyboardInterrupt
        if action == 3:
            raise BrokenText
        if action == 4:
            raise FileNotFoundError("caf\udce9")
        if action == 5:
            raise ValueError("x" * 10_000_000)
        return super().step(action)


@pytest.mark.parametrize("affinity", [False, True])
def test_whatever_an_environment_raises_is_answered(site: Site, affinity: bool) -> None:
    site.start(Wicked, thread_affinity=affinity, max_threads=3)
    client = opened(site)
    names = ["SystemExit", "KeyboardInterrupt", "BrokenText", "FileNotFoundError", "ValueError"]
    id_ = 1
    for _ in range(3):
        for action, name in enumerate(names, 1):
            id_ += 1
            client.send(1, id_, id_ - 1, "step", [action])
            kind, _, error = client.receive()[:3]
            assert (kind, error["code"], error["data"]["type"]) == (18, "environment_failed", name)
            assert len(error["message"]) < 20_000
    client.send(1, id_ + 1, id_, "step", [7])
    assert client.receive()[:2] == [17, id_ + 1]


def test_a_reply_beyond_the_clients_limit_is_an_error_of_that_request(site: Site) -> None:
    site.start()
    client = site.client()
    client.send(
        0,
        {
            "version": [1, 0],
            "max_frame_bytes": 50_000,
            "open": {"options": {"payload_bytes": 80_000}},
        },
    )
    assert client.receive()[0] == 16
    client.send(1, 1, 0, "reset", [None, None])
    kind, id_, error = client.receive()[:3]
    assert (kind, id_, error["code"]) == (18, 1, "frame_too_large")
    client.send(1, 2, 1, "state", [])
    assert client.receive()[:2] == [17, 2]


def unfit(close: bool) -> type[gymnasium.Env[Any, Any]]:
    class Odd(gymnasium.Space[Any]):
        pass

    class Unfit(CountingEnv):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = Odd((), np.float32)  # type: ignore[assignment]

        def close(self) -> None:
            if close:
                raise RuntimeError("cannot even close")

    return Unfit


@pytest.mark.parametrize("close", [False, True])
def test_an_environment_that_cannot_be_described_leaks_no_place(site: Site, close: bool) -> None:
    server = site.start(unfit(close), capacity=1)
    for _ in range(3):
        kind, _, error = site.client().open()
        assert (kind, error["code"]) == (18, "invalid_space")
    assert len(server.sessions) == 0


def test_another_environment_than_the_client_expects(site: Site) -> None:
    site.start()
    client = site.client()
    client.send(0, {"version": [1, 0], "open": {"options": {}, "package": "atari_env"}})
    error = client.receive()[2]
    assert error["code"] == "unknown_environment"
    assert "serves 'CountingEnv', not 'atari_env'" in error["message"]


def test_many_long_steps_begin_soon(site: Site) -> None:
    together = threading.Barrier(40)

    class Waiting(CountingEnv):
        def step(self, action: Any) -> Any:
            together.wait(60)  # until all are in their steps
            return super().step(action)

    site.start(Waiting, limits=Limits())
    clients = [opened(site) for _ in range(40)]
    for client in clients:
        client.send(1, 2, 1, "step", [1])
    for client in clients:
        assert client.receive()[:2] == [17, 2]


def test_large_bodies_that_are_never_sent_take_bounded_room(site: Site) -> None:
    server = site.start(limits=Limits(max_frame_bytes=1 << 20, handshake_timeout_s=60))

    def begin_request() -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(60)
        sock.connect(site.path)
        sock.sendall(b"POST /reset HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n")
        return sock

    def finish(sock: socket.socket) -> bytes:
        sock.sendall(b"{" + b" " * ((1 << 20) - 2) + b"}")
        with sock.makefile("rb") as answer:
            return answer.readline()

    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(begin_request()) for _ in range(4)]
        assert eventually(lambda: not server.bodies._free_bytes)
        with begin_request() as refused, refused.makefile("rb") as answer:
            assert answer.readline().startswith(b"HTTP/1.1 503")
            assert b"Retry-After: 1\r\n" in answer.readlines()
        held[0].close()
        assert finish(held[1]).startswith(b"HTTP/1.1 200")

        def taken() -> bool:
            with begin_request() as again:
                return finish(again).startswith(b"HTTP/1.1 200")

        assert eventually(taken)  # the room of those that ended is there again
