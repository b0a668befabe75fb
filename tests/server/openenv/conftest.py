"""A server on TCP, and plain clients of OpenEnv's JSON."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from openenv_gym.server import Server, create_app
from tests.server.openenv.worlds import Walk


@dataclass
class Answer:
    """What HTTP said."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Site:
    """A server and those who talk to it.

    Attributes:
        host: Where it listens.
        port: Likewise.
        server: The server, where it is in this process.
        stack: Ends what was begun.
    """

    host: str
    port: int
    server: Server | None = None
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            connection.request(method, path, data, headers or {})
            response = connection.getresponse()
            return Answer(response.status, dict(response.headers), response.read())
        finally:
            connection.close()

    def raw(self, data: bytes) -> bytes:
        """Send bytes and return all that comes back until the server closes."""
        with socket.create_connection((self.host, self.port), 60) as sock:
            sock.sendall(data)
            received = b""
            while part := sock.recv(65536):
                received += part
            return received

    def session(self, path: str = "/ws", **kwargs: Any) -> Session:
        socket = connect(f"ws://{self.host}:{self.port}{path}", proxy=None, max_size=None, **kwargs)
        return Session(self.stack.enter_context(socket))


class Session:
    """A WebSocket on which JSON goes back and forth."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    def send(self, message: Any) -> None:
        raw = isinstance(message, (str, bytes))
        self.socket.send(message if raw else json.dumps(message))

    def receive(self) -> Any:
        return json.loads(self.socket.recv(60))

    def ask(self, message: Any) -> Any:
        self.send(message)
        return self.receive()

    def reset(self, **arguments: Any) -> Any:
        return self.ask({"type": "reset", "data": arguments})

    def step(self, **action: Any) -> Any:
        return self.ask({"type": "step", "data": action})


Serve = Callable[..., Site]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start servers; they end with the test."""
    with contextlib.ExitStack() as stack:

        def start(app: Any = Walk, **kwargs: Any) -> Site:
            server = Server(create_app(app) if isinstance(app, type) else app, **kwargs)
            host, port = server.listen_tcp("127.0.0.1", 0)
            server.start()
            stack.callback(server.stop)
            site = Site(host, port, server)
            stack.push(site.stack)
            return site

        yield start
