"""What the client says of servers that do not behave."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.http11 import Response
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from openenv_gym import errors
from openenv_gym.client import Connection, UnixAddress, parse_base_url
from openenv_gym.protocol.codec import encode_packet
from openenv_gym.protocol.frames import Opcode, encode_frame
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


def welcome(**changes: Any) -> dict[str, Any]:
    body = {
        "version": [1, 0],
        "session": "s",
        "token": b"t" * 32,
        "epoch": 1,
        "limits": Limits().to_wire(),
        "environment": {},
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


@pytest.mark.parametrize("url", ["", "pong", "ftp://x", "http://", "http://x:99999", "unix://", 3])
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
            b"HTTP/1.1 400 Bad\r\nContent-Length: 48\r\n\r\nThis server speaks the subprotocol openenv-gym.v2",
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
