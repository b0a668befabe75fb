"""A Hub with Spaces that exist for one test."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


__all__ = ["FakeHub"]


class FakeHub:
    """Answers ``/api/spaces/USER/NAME``, and ``/health`` in the place of a Space.

    Attributes:
        url: Where it is.
        spaces: What it says of each Space.
        raw: Bodies to answer with instead, by path.
        asleep: How often ``/health`` says no.
        requests: All paths, in order.
        headers: Those of the last request.
    """

    def __init__(self) -> None:
        self.spaces: dict[str, dict[str, Any]] = {}
        self.raw: dict[str, bytes] = {}
        self.asleep = 0
        self.requests: list[str] = []
        self.headers: dict[str, str] = {}
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hub.requests.append(self.path)
                hub.headers = dict(self.headers)
                status, body = hub._answer(self.path)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def _answer(self, path: str) -> tuple[int, bytes]:
        if path in self.raw:
            return 200, self.raw[path]
        if path == "/health":
            self.asleep -= 1
            return (503, b"") if self.asleep >= 0 else (200, b"{}")
        space = self.spaces.get(path.removeprefix("/api/spaces/"))
        return (404, b"") if space is None else (200, json.dumps(space).encode())

    def __enter__(self) -> FakeHub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()
