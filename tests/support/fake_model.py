"""A server with OpenAI's chat API that says what a test wants it to say."""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


__all__ = ["FakeModel", "fake_model"]

Reply = str | Callable[["Call"], None]


class Call:
    """One request, and how to answer it.

    Attributes:
        handler: The connection.
        body: The request's JSON.
        headers: Its headers.
        leave: Called ahead of the answer: who has it may ask again at once.
    """

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self.handler = handler
        self.leave: Callable[[], None] = lambda: None
        self.headers = handler.headers
        self.body: dict[str, Any] = json.loads(
            handler.rfile.read(int(handler.headers["Content-Length"]))
        )

    @property
    def messages(self) -> dict[str, str]:
        """The messages by role."""
        return {each["role"]: each["content"] for each in self.body["messages"]}

    def say(self, text: str) -> None:
        """Answer with a completion."""
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        self.send(
            200,
            {
                "id": "1",
                "object": "chat.completion",
                "created": 1,
                "model": "fake",
                "choices": [choice],
            },
        )

    def send(self, status: int, body: Any, **headers: str) -> None:
        """Answer with anything."""
        self.leave()
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.handler.send_response(status)
        self.handler.send_header("Content-Type", "application/json")
        self.handler.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.handler.send_header(name.replace("_", "-"), value)
        self.handler.end_headers()
        self.handler.wfile.write(data)

    def hang_up(self) -> None:
        """End the connection without an answer."""
        self.leave()
        self.handler.close_connection = True
        self.handler.connection.close()


class FakeModel:
    """What the server does, and what it was asked.

    Attributes:
        url: Its address, for `base_url`.
        replies: What it says, one after the other: text, or what answers a `Call`. The last one
            is said over and over.
        calls: All requests so far.
        at_s: When they came, on the clock of `time.monotonic`.
        most: How many were there at once, at most.
    """

    def __init__(self) -> None:
        self.url = ""
        self.replies: list[Reply] = ["Score: 1"]
        self.calls: list[Call] = []
        self.at_s: list[float] = []
        self.most = 0
        self._now: set[Call] = set()
        self._lock = threading.Lock()

    def answer(self, call: Call) -> None:
        """Answer a request."""
        call.leave = lambda: self._leave(call)
        with self._lock:
            self.calls.append(call)
            self.at_s.append(time.monotonic())
            self._now.add(call)
            self.most = max(self.most, len(self._now))
            reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        try:
            if isinstance(reply, str):
                call.say(reply)
            else:
                reply(call)
        finally:
            self._leave(call)

    def _leave(self, call: Call) -> None:
        with self._lock:
            self._now.discard(call)


@contextlib.contextmanager
def fake_model() -> Iterator[FakeModel]:
    """Serve one on a free port."""
    model = FakeModel()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            with contextlib.suppress(OSError):  # the client has gone
                model.answer(Call(self))

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    # A process keeps what endpoints have said, and the next one may get the port of an earlier one.
    model.url = f"http://127.0.0.1:{server.server_address[1]}/{secrets.token_hex(8)}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
