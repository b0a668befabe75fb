"""What the client says of servers that do not behave."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.http11 import Response
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from openenv_gym import errors
from openenv_gym.client import Connection, InboundAddress, UnixAddress, parse_base_url
from openenv_gym.protocol.codec import decode_packet, encode_packet
from openenv_gym.protocol.frames import MessageReader, Opcode, encode_frame
from openenv_gym.protocol.limits import Limits
from openenv_gym.providers.thread import ThreadServer
from openenv_gym.server import Server, create_app
from tests.support.worlds import CountingEnv


Script = Callable[[socket.socket], None]


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Callable[[Script], UnixAddress]]:
    """Return a function that starts a server which does with each connection what a script says."""
    listener = socket.socket(socket.AF_UNIX)
    path = str(tmp_path / "fake")
    listener.bind(path)
    listener.listen(8)
    threads: list[threading.Thread] = []

    def start(script: Script) -> UnixAddress:
        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    sock, _ = listener.accept()
                    with sock, contextlib.suppress(OSError):
                        sock.settimeout(10)
                        script(sock)

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return UnixAddress(path)

    yield start
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    for thread in threads:
        thread.join(10)


def read_head(sock: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        head += sock.recv(4096)
    return head


def upgrade(sock: socket.socket, subprotocol: str | None = "openenv-gym.v1") -> None:
    protocol = ServerProtocol(subprotocols=[Subprotocol(subprotocol)] if subprotocol else None)
    protocol.receive_data(read_head(sock))
    request = protocol.events_received()[0]
    response = protocol.accept(request)
    assert isinstance(response, Response)
    if subprotocol and "Sec-WebSocket-Protocol" not in response.headers:
        response.headers["Sec-WebSocket-Protocol"] = subprotocol
    sock.sendall(response.serialize())


def say(sock: socket.socket, *message: Any) -> None:
    sock.sendall(b"".join(encode_frame(Opcode.BINARY, encode_packet(list(message)), masked=False)))


def listen(sock: socket.socket) -> Callable[[], list[Any]]:
    """Return a function that returns the next message of the client."""
    reader = MessageReader(max_message_bytes=1 << 20, peer_masks=True)

    def hear() -> list[Any]:
        while (message := reader.next()) is None:
            reader.received(sock.recv_into(reader.buffer()))
            if reader.eof:
                raise ConnectionResetError
        return decode_packet(message.data)

    return hear


def welcome(**changes: Any) -> dict[str, Any]:
    body = {
        "version": [1, 0],
        "session": "s",
        "token": b"t" * 32,
        "epoch": 1,
        "limits": Limits().to_wire(),
        "environment": {"action_space": {}, "observation_space": {}},
    }
    return {**body, **changes}


def connect(address: Any, **kwargs: Any) -> Connection:
    return Connection(address, {}, **{"connect_timeout_s": 1.0, "timeout_s": 1.0, **kwargs})


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(errors.ServerUnreachableError, match="No server answers at unix://"):
        connect(UnixAddress(str(tmp_path / "nothing")))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(errors.ServerUnreachableError, match=f"127.0.0.1:{port}"):
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
    address = fake(lambda sock: done.wait(10) and None)
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
        server.address, {"payload_bytes": 200_000}, timeout_s=5, max_frame_bytes=100_000
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

    connection = connect(fake(script), timeout_s=5)
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


def test_a_dead_server_whose_connection_stays_open_is_noticed(fake: Any) -> None:
    """A child of the server holds the socket."""

    def script(sock: socket.socket) -> None:
        upgrade(sock)
        sock.recv(4096)
        say(sock, 16, welcome())
        while sock.recv(4096):
            pass

    connection = connect(
        fake(script), timeout_s=30, why_lost=lambda: errors.ServerDiedError("It was killed.")
    )
    begin_s = time.monotonic()
    with pytest.raises(errors.ConnectionLostError, match="It was killed"):
        connection.call("step", [1])
    assert 0.9 < time.monotonic() - begin_s < 5
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
    connection = connect(address, connect_timeout_s=10, timeout_s=10)
    time.sleep(0.2)  # so that sending fails, with the goodbye unread
    begin_s = time.monotonic()
    with pytest.raises(errors.ConnectionLostError, match="it stops: maintenance"):
        connection.call("step", [1])
    assert time.monotonic() - begin_s < 3


def test_a_server_that_does_not_read(fake: Any) -> None:
    done = threading.Event()

    def script(sock: socket.socket) -> None:
        upgrade(sock)
        sock.recv(4096)
        say(sock, 16, welcome())
        done.wait(10)

    connection = connect(fake(script), timeout_s=0.3)
    begin_s = time.monotonic()
    with pytest.raises(errors.DeadlineExceededError, match="No answer to step"):
        connection.call("step", [b"x" * (8 << 20)])
    assert time.monotonic() - begin_s < 3
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


def test_connecting_takes_no_longer_than_a_request_may(fake: Any) -> None:
    done = threading.Event()
    address = fake(lambda sock: done.wait(10) and None)
    begin_s = time.monotonic()
    with pytest.raises(errors.ServerUnreachableError, match="did not answer"):
        Connection(address, {}, timeout_s=0.3)
    assert time.monotonic() - begin_s < 3
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
