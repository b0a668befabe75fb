"""What the client says of servers that do not behave."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.client import Connection, InboundAddress, UnixAddress, parse_base_url
from openenv_gym.client.web_socket import _explain_failure
from tests.client.scripted import connect, read_head, say, upgrade, welcome
from tests.support.ports import reserved_port


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(errors.ServerUnreachableError, match="No server answers at unix://"):
        connect(UnixAddress(str(tmp_path / "nothing")))
    with (
        reserved_port() as port,
        pytest.raises(errors.ServerUnreachableError, match=f"127.0.0.1:{port}"),
    ):
        connect(parse_base_url(f"http://127.0.0.1:{port}"))
    with pytest.raises(errors.ServerUnreachableError, match="name|Name|known"):
        connect(parse_base_url("http://no-such-host.invalid"))


@pytest.mark.parametrize(
    "url", ["", "pong", "ftp://x", "http://", "http://x:99999", "http://[::1", "unix://", 3]
)
def test_what_is_no_address(url: Any) -> None:
    with pytest.raises(errors.InvalidOptionError, match="no address of a server"):
        parse_base_url(url)


def test_addresses() -> None:
    assert parse_base_url("https://a.example").uri == "wss://a.example:443/ws"
    assert parse_base_url("http://[::1]:80/x/").uri == "ws://[::1]:80/x/ws"
    assert parse_base_url("ws://a:5/ws").uri == "ws://a:5/ws"
    assert str(parse_base_url("unix:///run/x")) == "unix:///run/x"


def test_a_server_that_is_silent(fake: Any) -> None:
    done = threading.Event()
    address = fake(lambda sock: done.wait(60) and None)
    with pytest.raises(errors.ServerUnreachableError, match="did not answer"):
        connect(address, connect_timeout_s=0.2)
    done.set()


def test_a_server_that_hangs_up(fake: Any) -> None:
    with pytest.raises(errors.ServerUnreachableError, match="broke the connection off|closed"):
        connect(fake(lambda sock: None))


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", errors.NotAnOpenEnvServerError, "does not speak HTTP"),
        (b"\x00\xff\x00garbage", errors.NotAnOpenEnvServerError, "does not speak HTTP"),
        (
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\n\r\nnothing",
            errors.NotAnOpenEnvServerError,
            "status 404: nothing",
        ),
        (
            b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
            errors.UnauthorizedError,
            "OPENENV_TOKEN",
        ),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>", errors.NotAnOpenEnvServerError, "status 200"),
        (b"HTTP/1.1 " + b"x" * 100_000, errors.NotAnOpenEnvServerError, "does not speak HTTP"),
        (
            b"HTTP/1.1 400 Bad\r\nContent-Length: 49\r\n\r\nThis server speaks the subprotocol openenv-gym.v2",
            errors.VersionMismatchError,
            "matching versions",
        ),
    ],
)
def test_a_server_that_is_something_else(fake: Any, data: bytes, error: Any, message: str) -> None:
    def script(sock: socket.socket) -> None:
        read_head(sock)
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        sock.recv(4096)

    with pytest.raises(error, match=message):
        connect(fake(script))


def test_a_websocket_server_of_another_kind(fake: Any) -> None:
    with pytest.raises(errors.NotAnOpenEnvServerError, match=r"does not speak openenv-gym\.v1"):
        connect(fake(lambda sock: upgrade(sock, None)))


def test_a_server_of_another_subprotocol_version(fake: Any) -> None:
    with pytest.raises(errors.VersionMismatchError, match=r"openenv-gym\.v2"):
        connect(fake(lambda sock: upgrade(sock, "openenv-gym.v2")))


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ([16, {**welcome(), "version": [2, 0]}], errors.VersionMismatchError, "version 2"),
        ([16, {}], errors.ProtocolError, "sent version None"),
        ([16, {"version": [1, 9]}], errors.ProtocolError, "WELCOME is incomplete"),
        ([17, 1, None, [0, 0]], errors.ProtocolError, "Expected WELCOME"),
        ([77], errors.ProtocolError, "got type 77"),
        ([18, None, {"code": "at_capacity", "message": "full"}], errors.CapacityError, "full"),
        ([18, None, {"code": "from_the_future"}], errors.ProtocolError, "from_the_future"),
    ],
)
def test_answers_to_hello(fake: Any, answer: list[Any], error: Any, message: str) -> None:
    def script(sock: socket.socket) -> None:
        upgrade(sock)
        sock.recv(4096)
        say(sock, *answer)

    with pytest.raises(error, match=message):
        connect(fake(script))


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (
            b"\x82\x7f" + (200 << 20).to_bytes(8, "big"),
            errors.FrameTooLargeError,
            str(200 << 20),
        ),
        (b"\x82\x05\xff\xff\xff\xff\xff", errors.DecodeError, "head"),
        (b"\x81\x02hi", errors.ProtocolError, "text message"),
        (b"\xf2\x02hi", errors.ProtocolError, "reserved"),
    ],
)
def test_frames_that_break_the_protocol(fake: Any, data: bytes, error: Any, message: str) -> None:
    def script(sock: socket.socket) -> None:
        upgrade(sock)
        sock.recv(4096)
        say(sock, 16, welcome())
        sock.recv(4096)
        sock.sendall(data)
        sock.recv(4096)

    connection = connect(fake(script))
    with pytest.raises(error, match=message):
        connection.call("reset", [None, None])
    connection.close()


def test_a_reply_that_nobody_asked_for(fake: Any) -> None:
    def script(sock: socket.socket) -> None:
        upgrade(sock)
        sock.recv(4096)
        say(sock, 16, welcome())
        sock.recv(4096)
        say(sock, 17, 5, None, [0, 0])
        sock.recv(4096)

    connection = connect(fake(script))
    with pytest.raises(errors.ProtocolError, match="answered request 5, expected the answer to 1"):
        connection.call("reset", [None, None])
    connection.close()


def test_a_dead_server_whose_connection_stays_open_is_noticed(fake: Any) -> None:
    """A child of the server holds the socket."""

    def script(sock: socket.socket) -> None:
        upgrade(sock)
        sock.recv(4096)
        say(sock, 16, welcome())
        while sock.recv(4096):
            pass

    connection = connect(fake(script), why_lost=lambda: errors.ServerDiedError("It was killed."))
    begin_s = time.monotonic()
    with pytest.raises(errors.ConnectionLostError, match="It was killed"):
        connection.call("step", [1])
    assert time.monotonic() - begin_s > 0.9
    with pytest.raises(errors.SessionClosedError, match=r"is closed\. It was killed\."):
        connection.call("step", [1])


def test_a_server_that_said_goodbye_is_not_looked_for(fake: Any) -> None:
    def script(sock: socket.socket) -> None:
        upgrade(sock)
        sock.recv(4096)
        say(sock, 16, welcome())
        os.unlink(address.path)
        say(sock, 19, {"after_s": 0, "reason": "maintenance"})

    address = fake(script)
    connection = connect(address, connect_timeout_s=600, timeout_s=600)
    hung_up = select.poll()
    hung_up.register(connection.fileno(), 0)
    assert hung_up.poll(60_000)  # so that sending fails, with the goodbye unread
    with pytest.raises(errors.ConnectionLostError, match="it stops: maintenance"):
        connection.call("step", [1])


def test_a_server_that_does_not_read(fake: Any) -> None:
    done = threading.Event()

    def script(sock: socket.socket) -> None:
        upgrade(sock)
        sock.recv(4096)
        say(sock, 16, welcome())
        done.wait(60)

    connection = connect(fake(script))
    with pytest.raises(errors.DeadlineExceededError, match="No answer to step"):
        connection.call("step", [b"x" * (8 << 20)], timeout_s=0.3)
    done.set()
    connection.close()


def test_a_handshake_that_fails_is_no_other_version(fake: Any) -> None:
    def script(sock: socket.socket) -> None:
        read_head(sock)
        sock.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: nonsense\r\nSec-WebSocket-Protocol: openenv-gym.v1\r\n\r\n"
        )
        sock.recv(4096)

    with pytest.raises(errors.NotAnOpenEnvServerError, match=r"failed the handshake.*Accept"):
        connect(fake(script))


@pytest.mark.parametrize("name", ["timeout_s", "wait_s", "connect_timeout_s"])
@pytest.mark.parametrize(
    "value", ["5", None, True, float("nan"), float("inf"), -1, 0, 1e7, 10**400, 1j]
)
def test_limits_that_are_none(tmp_path: Path, name: str, value: Any) -> None:
    expected: type[Exception] = errors.InvalidOptionError
    if (name, value) in [("wait_s", 0), ("connect_timeout_s", None)]:
        expected = errors.ServerUnreachableError
    with pytest.raises(expected) as caught:
        connect(UnixAddress(str(tmp_path / "nothing")), **{name: value})
    if expected is errors.InvalidOptionError:
        assert isinstance(caught.value, errors.InvalidOptionError) and caught.value.field == name
        assert f"{name} is {value!r:.80}, expected a finite number" in str(caught.value)


def test_connecting_takes_no_longer_than_a_request_may(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openenv_gym.client.link._CONNECT_S", 600.0)
    done = threading.Event()
    address = fake(lambda sock: done.wait(60) and None)
    with pytest.raises(errors.ServerUnreachableError, match="did not answer"):
        Connection(address, {}, timeout_s=0.3)
    done.set()


def test_a_server_that_does_not_dial(tmp_path: Path) -> None:
    address = InboundAddress(str(tmp_path / "s"), "box")
    with pytest.raises(errors.ServerUnreachableError, match=r"box did not connect within 0\.1 s"):
        address.dial(0.1)
    with pytest.raises(errors.TransportError, match="Cannot listen at .* for box"):
        InboundAddress(str(tmp_path / "s"), "box")
    address.close()
    with pytest.raises(errors.ServerUnreachableError, match="box"):
        address.dial(0.1)


def test_silence_of_a_server_that_may_not_speak_tls() -> None:
    for url, asks in (("https://localhost:1", True), ("http://localhost:1", False)):
        explained = _explain_failure(parse_base_url(url), TimeoutError())
        assert ("without TLS" in str(explained)) is asks
