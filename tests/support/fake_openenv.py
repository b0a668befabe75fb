"""A small server that speaks OpenEnv's JSON, and does wrong what a test asks for."""

from __future__ import annotations

import asyncio
import contextlib
import http
import json
import ssl
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve, unix_serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response


__all__ = ["FakeOpenEnv", "FakeSession", "Gate", "counting", "observation"]

Answer = dict[str, Any] | str | bytes | None
Script = Callable[["FakeSession", dict[str, Any]], "Answer | Awaitable[Answer]"]


class FakeSession:
    """One connection, as a script sees it.

    Attributes:
        server: The server.
        socket: The connection, for what is out of the ordinary.
        number: Counts the connections, from 1.
        steps: For scripts that count.
    """

    def __init__(self, server: FakeOpenEnv, socket: ServerConnection, number: int) -> None:
        self.server = server
        self.socket = socket
        self.number = number
        self.steps = 0


def observation(
    fields: dict[str, Any], reward: Any = None, done: bool = False, **more: Any
) -> dict[str, Any]:
    """Return the reply to a reset or a step."""
    inner = {"metadata": more.get("metadata", {}), **fields}
    return {
        "type": "observation",
        "data": {"observation": inner, "reward": reward, "done": done, **more},
    }


def counting(session: FakeSession, message: dict[str, Any]) -> Answer:
    """Count steps, and tell the count and the last action in every observation."""
    data = message.get("data", {})
    if message["type"] == "reset":
        session.steps = 0
        return observation({"count": 0, "last": data})
    if message["type"] == "step":
        session.steps += 1
        return observation({"count": session.steps, "last": data}, float(session.steps))
    if message["type"] == "state":
        state = {"episode_id": f"e{session.number}", "step_count": session.steps}
        return {"type": "state", "data": state}
    return {"type": "mcp", "data": {"jsonrpc": "2.0", "id": data.get("id"), "result": {}}}


class Gate:
    """A script that answers as another one does, but some messages only once it is open.

    Args:
        waits: Whether a message with this ``data`` waits.
        script: The other one.

    Attributes:
        reached: Set when a message waits.
    """

    def __init__(self, waits: Callable[[dict[str, Any]], bool], script: Any = counting) -> None:
        self.reached = threading.Event()
        self._waits = waits
        self._script = script
        self._open = asyncio.Event()

    async def __call__(self, session: FakeSession, message: dict[str, Any]) -> Answer:
        if self._waits(message.get("data", {})):
            self.reached.set()
            await self._open.wait()
        answer: Answer = self._script(session, message)
        return answer

    async def open(self) -> None:
        """Let all through; for `FakeOpenEnv.run`."""
        self._open.set()


class FakeOpenEnv:
    """A server in a thread of its own, on a free port of the loopback interface.

    Args:
        script: Called with each message but ``close``; returns the reply, or None for none.
        max_sessions: One connection more is told CAPACITY_REACHED, and closed.
        token: Credential that is wanted.
        schema: What ``GET /schema`` answers.
        ssl_context: For TLS.
        path: A Unix socket instead of the port.
        options: Further arguments of `websockets.serve`.

    Attributes:
        url: Where it is.
        opened: How many connections there were.
        active: How many there are.
        requests: All messages, in order.
        headers: Headers of the last opening request.
    """

    def __init__(
        self,
        script: Script = counting,
        *,
        max_sessions: int = 1000,
        token: str | None = None,
        schema: dict[str, Any] | None = None,
        ssl_context: ssl.SSLContext | None = None,
        path: str | None = None,
        **options: Any,
    ) -> None:
        self.url = ""
        self.opened = self.active = 0
        self.requests: list[dict[str, Any]] = []
        self.headers = Headers()
        self._script = script
        self._max_sessions = max_sessions
        self._token = token
        self._schema = schema
        self._path = path
        self._options = {"compression": None, "ssl": ssl_context, **options}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: Server | None = None
        self._serving: set[asyncio.Task[Any]] = set()

    def __enter__(self) -> FakeOpenEnv:
        self._thread.start()
        self.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, coroutine: Any) -> Any:
        """Run a coroutine in the server's loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def kill_connections(self) -> None:
        """Break all connections without a word."""

        async def kill() -> None:
            assert self._server is not None
            for connection in list(self._server.connections):
                connection.transport.abort()

        self.run(kill())

    async def _start(self) -> None:
        if self._path is not None:
            self._server = await unix_serve(
                self._serve, self._path, process_request=self._process, **self._options
            )
            self.url = f"unix://{self._path}"
            return
        self._server = await serve(
            self._serve, "127.0.0.1", 0, process_request=self._process, **self._options
        )
        scheme = "https" if self._options["ssl"] else "http"
        self.url = f"{scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _stop(self) -> None:
        assert self._server is not None
        for task in self._serving:
            task.cancel()
        self._server.close()
        await self._server.wait_closed()

    def _process(self, connection: ServerConnection, request: Request) -> Response | None:
        self.headers = request.headers
        if self._token and request.headers.get("Authorization") != f"Bearer {self._token}":
            return connection.respond(http.HTTPStatus.UNAUTHORIZED, "a token is missing")
        if request.path == "/ws":
            return None
        if request.path == "/schema" and self._schema is not None:
            response = connection.respond(http.HTTPStatus.OK, json.dumps(self._schema))
            del response.headers["Content-Type"]
            response.headers["Content-Type"] = "application/json"
            return response
        return connection.respond(http.HTTPStatus.NOT_FOUND, "no such page")

    async def _serve(self, socket: ServerConnection) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        self.opened += 1
        if self.active >= self._max_sessions:
            data = {
                "message": "Server at capacity",
                "code": "CAPACITY_REACHED",
                "active_sessions": self.active,
                "max_sessions": self._max_sessions,
            }
            await socket.send(json.dumps({"type": "error", "data": data}))
            return
        self.active += 1
        try:
            with contextlib.suppress(ConnectionClosed):
                await self._talk(FakeSession(self, socket, self.opened), socket)
        finally:
            self.active -= 1

    async def _talk(self, session: FakeSession, socket: ServerConnection) -> None:
        async for text in socket:
            message = json.loads(text)
            self.requests.append(message)
            if message["type"] == "close":
                return
            answer = self._script(session, message)
            if isinstance(answer, Awaitable):
                answer = await answer
            if answer is not None:
                await socket.send(json.dumps(answer) if isinstance(answer, dict) else answer)
