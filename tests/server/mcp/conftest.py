"""A server with tools on a port of its own, and plain HTTP to it."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from openenv_gym.server import Mode, Server, create_app
from tests.server.mcp.rooms import Holding, Room


@dataclass
class Site:
    """A server, and HTTP to it."""

    server: Server
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def open_sessions(self) -> int:
        return len(self.server.sessions)

    def http(self, method: str, body: Any = None, path: str = "/mcp", **headers: str):
        """Return status, headers and JSON of an answer; `headers` have underscores for dashes."""
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, data, names)
            answer = connection.getresponse()
            read = answer.read()
            is_json = answer.headers.get_content_type() == "application/json"
            return answer.status, answer.headers, json.loads(read) if is_json else read
        finally:
            connection.close()

    def rpc(self, method: str, headers: dict[str, str] | None = None, /, **params: Any) -> Any:
        """Return the answer to a request, or to a notification None."""
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if not method.startswith("notifications/"):
            message["id"] = 1
        return self.http("POST", message, **(headers or {}))[2] or None


@pytest.fixture
def make_site() -> Iterator[Any]:
    servers = []

    def make(factory=Room, *, mode: Mode = Mode.SIMULATION, **options: Any) -> Site:
        server = Server(replace(create_app(factory), mode=mode), **options)
        servers.append(server)
        port = server.listen_tcp("127.0.0.1", 0)[1]
        server.start()
        return Site(server, port)

    yield make
    for server in servers:
        server.stop()


@pytest.fixture
def site(make_site) -> Site:
    return make_site()


@pytest.fixture
def holding() -> Iterator[type[Holding]]:
    """A room for one test, whose gate opens at the end."""

    class Own(Holding):
        gate = threading.Event()

    yield Own
    Own.gate.set()
