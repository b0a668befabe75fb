"""Frames and requests to a server, and what it answers."""

from __future__ import annotations

import contextlib
import json
import urllib.error
import urllib.request
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect


def opened(url: str, path: str = "/ws") -> ClientConnection:
    return connect(f"{url.replace('http', 'ws')}{path}", proxy=None, open_timeout=20)


def heard(socket: ClientConnection) -> Any:
    """Return what a server says next, or the code with which it closes."""
    try:
        return json.loads(socket.recv(20))
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd is not None else None


def said(url: str, frames: list[Any], path: str = "/ws") -> list[Any]:
    """Return the answers to frames: texts and bytes as they are, others as JSON."""
    answers = []
    with opened(url, path) as socket:
        for frame in frames:
            with contextlib.suppress(ConnectionClosed):  # what it said before can be heard
                socket.send(frame if isinstance(frame, (str, bytes)) else json.dumps(frame))
            answers.append(heard(socket))
    return answers


def asked(url: str, method: str, path: str, body: Any) -> tuple[int, Any]:
    """Return status and JSON of the answer to a request."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}{path}", data, method=method)
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text.startswith(b"{") else None
