"""Peer: the round trip of a bare WebSocket echo over a Unix socket; no options."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Generator
from typing import Any

from websockets.sync.client import unix_connect

from benchmarks.drivers.common import Round, child, serve


SIZE = 64  # bytes; about what a small step's message takes


def start(options: dict[str, Any]) -> Generator[Round, None, None]:
    """Start the server, connect, and yield the rounds."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        path = os.path.join(folder, "echo.sock")
        with (
            child("echo_server", path),
            unix_connect(path, "ws://localhost/", compression=None) as connection,
        ):
            payload = os.urandom(SIZE)

            def take_round(steps: int) -> float:
                send, receive = connection.send, connection.recv
                begin = time.perf_counter()
                for _ in range(steps):
                    send(payload)
                    receive()
                return time.perf_counter() - begin

            yield take_round


if __name__ == "__main__":
    serve(start)
