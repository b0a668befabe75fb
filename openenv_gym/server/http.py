"""The HTTP side of a server: the WebSocket handshake, and three routes for people and probes.

The `websockets` library parses requests and decides about the handshake; nothing here does I/O.
"""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from openenv_gym.protocol.limits import PATH, SUBPROTOCOL


__all__ = ["MAX_HEAD_BYTES", "Answer", "Router"]

MAX_HEAD_BYTES = 16 << 10

Route = Callable[[], tuple[HTTPStatus, Mapping[str, Any]]]

# Handed to `websockets`, which would ask for it each time: that takes a lock of the whole process.
_log = logging.getLogger("websockets.server")


@dataclass(frozen=True)
class Answer:
    """What to send back, and whether the connection is a WebSocket from then on."""

    data: bytes
    upgraded: bool


class Router:
    """Answers the first request of a connection.

    Args:
        routes: Path to a function that returns a status and JSON data.
        token: Credential that every WebSocket and every route but ``/health`` asks for.
    """

    def __init__(self, routes: Mapping[str, Route], *, token: str | None = None) -> None:
        self._routes = dict(routes)
        self._token = token

    def answer(self, head: bytes) -> Answer:
        """Answer a complete request head, up to and with its empty line."""
        protocol = ServerProtocol(
            subprotocols=[Subprotocol(SUBPROTOCOL)], extensions=None, logger=_log
        )
        protocol.receive_data(head)
        events = protocol.events_received()
        if not events or not isinstance(events[0], Request):
            return self._text(
                HTTPStatus.BAD_REQUEST,
                f"Not a request that is served here: {protocol.handshake_exc}.",
            )
        request = events[0]
        path = request.path.partition("?")[0]
        method = getattr(request, "method", "GET")  # older versions take GET alone
        if path == PATH:
            return self._upgrade(protocol, request)
        route = self._routes.get(path)
        if route is None:
            known = ", ".join(sorted([*self._routes, PATH]))
            return self._text(HTTPStatus.NOT_FOUND, f"No such path; there are {known}.")
        if method != "GET":
            return self._text(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} takes GET.")
        if path != "/health" and not self._authorized(request):
            return self._text(HTTPStatus.UNAUTHORIZED, "A bearer token is missing or wrong.")
        try:
            status, data = route()
        except Exception as error:
            return self._text(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")
        return self._respond(status, json.dumps(data, default=str), "application/json")

    def too_large(self) -> Answer:
        """Answer a head beyond the limit."""
        return self._text(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"The head exceeds {MAX_HEAD_BYTES} bytes."
        )

    def _upgrade(self, protocol: ServerProtocol, request: Request) -> Answer:
        if not self._authorized(request):
            return self._text(HTTPStatus.UNAUTHORIZED, "A bearer token is missing or wrong.")
        response = protocol.accept(request)
        upgraded = response.status_code == HTTPStatus.SWITCHING_PROTOCOLS
        if upgraded and protocol.subprotocol != SUBPROTOCOL:
            offered = request.headers.get("Sec-WebSocket-Protocol", "none")
            return self._text(
                HTTPStatus.BAD_REQUEST,
                f"This server speaks the subprotocol {SUBPROTOCOL}; offered: {offered[:200]}.",
            )
        return Answer(response.serialize(), upgraded)

    def _authorized(self, request: Request) -> bool:
        if self._token is None:
            return True
        given = request.headers.get("Authorization", "")
        return hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode())

    def _text(self, status: HTTPStatus, text: str) -> Answer:
        return self._respond(status, text + "\n", "text/plain; charset=utf-8")

    def _respond(self, status: HTTPStatus, body: str, content_type: str) -> Answer:
        data = body.encode()
        headers = Headers(
            {
                "Content-Type": content_type,
                "Content-Length": str(len(data)),
                "Connection": "close",
            }
        )
        response = Response(status.value, status.phrase, headers, data)
        return Answer(response.serialize(), upgraded=False)
