"""The HTTP side of a server: which request leads where. Nothing here does I/O.

The `websockets` library decides about the opening of a WebSocket; what else HTTP asks for are a
few routes with small JSON bodies, one request for each connection.
"""

from __future__ import annotations

import email.parser
import hmac
import ipaddress
import json
import logging
import os
import re
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, NamedTuple

from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from openenv_gym.protocol.limits import PATH, SUBPROTOCOL, Limits
from openenv_gym.protocol.openenv_json import load_json


__all__ = [
    "MAX_HEAD_BYTES",
    "Call",
    "Handler",
    "HttpRequest",
    "HttpResponse",
    "Route",
    "Router",
    "Upgrade",
    "trusted_hosts",
]

MAX_HEAD_BYTES = 16 << 10

# Handed to `websockets`, which would ask for it each time: that takes a lock of the whole process.
_log = logging.getLogger("websockets.server")

_REQUEST_LINE = re.compile(rb"([A-Z]{1,20}) (/[\x21-\x7e]*) HTTP/1\.[01]\r\n")
_PARAMETER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class HttpRequest:
    """A request.

    Attributes:
        method: ``"GET"``, ``"POST"``, ...
        path: Path, without the query.
        query: Parameters of the query; of one that is there twice, the last.
        headers: Headers by their names in lower case.
        parameters: What stands in the path where its route has ``{name}``.
        body: The body.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def json(self) -> Any:
        """Return the body as JSON says it; None where there is no body.

        Raises:
            DecodeError: It is no JSON.
        """
        return load_json(self.body) if self.body.strip() else None


@dataclass(frozen=True)
class HttpResponse:
    """An answer, after which the connection ends.

    Attributes:
        status: Its status.
        body: The body.
        content_type: What the body is; None where there is none.
        headers: Further headers.
    """

    status: HTTPStatus
    body: bytes = b""
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_json(cls, data: Any, status: HTTPStatus = HTTPStatus.OK, **headers: str) -> HttpResponse:
        """Answer with JSON; `headers` have underscores for their dashes."""
        return cls(
            status,
            json.dumps(data, default=str).encode(),
            "application/json",
            {name.replace("_", "-"): value for name, value in headers.items()},
        )

    @classmethod
    def of_text(cls, status: HTTPStatus, text: str) -> HttpResponse:
        """Answer with a line for people."""
        return cls(status, f"{text}\n".encode(), "text/plain; charset=utf-8")

    def to_bytes(self) -> bytes:
        """Return what is sent."""
        lines = [f"HTTP/1.1 {self.status.value} {self.status.phrase}"]
        if self.content_type is not None:
            lines.append(f"Content-Type: {self.content_type}")
        lines += [f"Content-Length: {len(self.body)}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


Handler = Callable[[HttpRequest], HttpResponse]


@dataclass(frozen=True)
class Route:
    """Where a request of a method and a path leads.

    Attributes:
        method: Method.
        path: Path; ``{name}`` stands for one part of it.
        handler: Answers; called in a thread of the pool, and may take its time.
        open: No credential is asked for.
        quick: It takes no time, and is called at once, however busy the pool is.
    """

    method: str
    path: str
    handler: Handler
    open: bool = False
    quick: bool = False

    def match(self, path: str) -> dict[str, str] | None:
        """Return what stands in the path for each name; None where the path is another one."""
        pattern = _PARAMETER.sub(r"(?P<\1>[^/]+)", self.path)
        found = re.fullmatch(pattern, path)
        return None if found is None else found.groupdict()


class Upgrade(NamedTuple):
    """The connection is a WebSocket from now on.

    Attributes:
        response: What is sent.
        request: What was asked for.
        subprotocol: What both sides speak; None for OpenEnv's JSON.
    """

    response: bytes
    request: HttpRequest
    subprotocol: str | None


class Call(NamedTuple):
    """A handler answers, once the body is here.

    Attributes:
        route: Whose handler answers.
        request: What was asked for, still without its body.
        body_bytes: Size of the body.
        expects_go: The client waits for ``100 Continue`` before it sends the body.
    """

    route: Route
    request: HttpRequest
    body_bytes: int
    expects_go: bool


class Router:
    """Decides about the first request of a connection.

    Args:
        routes: What is served beside the WebSocket.
        token: Credential that every WebSocket and every route that is not open asks for.
        websockets: Paths on which a WebSocket without a subprotocol is taken.
        hosts: Names under which pages of this server itself may use it.
        max_body_bytes: Largest body.
    """

    def __init__(
        self,
        routes: Iterable[Route],
        *,
        token: str | None = None,
        websockets: Iterable[str] = (PATH,),
        hosts: Iterable[str] = (),
        max_body_bytes: int = Limits.max_frame_bytes,
    ) -> None:
        self._routes = list(routes)
        self._token = token
        self._websockets = frozenset(websockets)
        self._hosts = frozenset(hosts)
        self._max_body_bytes = max_body_bytes

    def answer(self, head: bytes) -> Upgrade | Call | HttpResponse:
        """Decide about a complete request head, up to and with its empty line."""
        request = _read_head(head)
        if request is None:
            return HttpResponse.of_text(
                HTTPStatus.BAD_REQUEST, "Not a request that is served here: expected HTTP/1.1."
            )
        if (refusal := self._refuse_origin(request)) is not None:
            return refusal
        if "upgrade" in request.headers and request.path in self._websockets:
            return self._upgrade(head, request)
        matching = [
            (route, parameters)
            for route in self._routes
            if (parameters := route.match(request.path)) is not None
        ]
        for route, parameters in matching:
            if route.method == request.method:
                return self._call(route, replace(request, parameters=parameters))
        if request.path in self._websockets and request.method == "GET":
            return self._upgrade(head, request)  # which says what a WebSocket needs
        return self._not_found(request, sorted({route.method for route, _ in matching}))

    def too_large(self) -> HttpResponse:
        """Answer a head beyond the limit."""
        return HttpResponse.of_text(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"The head exceeds {MAX_HEAD_BYTES} bytes."
        )

    def _call(self, route: Route, request: HttpRequest) -> Call | HttpResponse:
        if not route.open and not self._authorized(request):
            return _unauthorized()
        if "transfer-encoding" in request.headers:
            return HttpResponse.of_text(
                HTTPStatus.LENGTH_REQUIRED, "Send the body with a Content-Length."
            )
        length = request.headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit() and len(length) < 16):
            return HttpResponse.of_text(
                HTTPStatus.BAD_REQUEST, f"Content-Length is {length[:40]!r}, expected a number."
            )
        if int(length) > self._max_body_bytes:
            return HttpResponse.of_text(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"The body has {length} bytes, at most {self._max_body_bytes} are taken.",
            )
        expects_go = request.headers.get("expect", "").lower() == "100-continue"
        return Call(route, request, int(length), expects_go)

    def _upgrade(self, head: bytes, request: HttpRequest) -> Upgrade | HttpResponse:
        if not self._authorized(request):
            return _unauthorized()
        protocol = ServerProtocol(
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            # Without a subprotocol the client speaks OpenEnv's JSON.
            select_subprotocol=_select,
            extensions=None,
            logger=_log,
        )
        protocol.receive_data(head)
        events = protocol.events_received()
        if not events or not isinstance(events[0], Request):
            return HttpResponse.of_text(
                HTTPStatus.BAD_REQUEST,
                f"Not a request that is served here: {protocol.handshake_exc}.",
            )
        response = protocol.accept(events[0])
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            return HttpResponse(
                HTTPStatus(response.status_code),
                bytes(response.body or b""),
                "text/plain; charset=utf-8",
                {"Upgrade": "websocket"} if response.status_code == 426 else {},
            )
        offered = request.headers.get("sec-websocket-protocol")
        if protocol.subprotocol is None and offered is not None:
            return HttpResponse.of_text(
                HTTPStatus.BAD_REQUEST,
                f"This server speaks the subprotocol {SUBPROTOCOL}, or OpenEnv's JSON where none "
                f"is offered; offered: {offered[:200]}.",
            )
        return Upgrade(response.serialize(), request, protocol.subprotocol)

    def _not_found(self, request: HttpRequest, methods: list[str]) -> HttpResponse:
        if methods:
            taken = ", ".join(methods)
            refused = HttpResponse.of_text(
                HTTPStatus.METHOD_NOT_ALLOWED, f"{request.path} takes {taken}."
            )
            return replace(refused, headers={"Allow": taken})
        known = sorted({*(route.path for route in self._routes), *self._websockets})
        return HttpResponse.of_text(
            HTTPStatus.NOT_FOUND, f"No such path; there are {', '.join(known)}."
        )

    def _authorized(self, request: HttpRequest) -> bool:
        if self._token is None:
            return True
        given = request.headers.get("authorization", "")
        return hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode())

    def _refuse_origin(self, request: HttpRequest) -> HttpResponse | None:
        """Refuse a page of another site, which a browser tells by its origin.

        A page can have its own name lead to this server's address (DNS rebinding), and is of the
        same site then. It does not know the token, and cannot do so with an address.
        """
        origin = request.headers.get("origin")
        if origin is None:
            return None
        site = urllib.parse.urlsplit(origin)
        if site.netloc == request.headers.get("host") and (
            self._token is not None or _is_local(site.hostname) or site.hostname in self._hosts
        ):
            return None
        return HttpResponse.of_text(
            HTTPStatus.FORBIDDEN, f"Pages of {origin[:200]!r} may not use this server."
        )


def trusted_hosts() -> frozenset[str]:
    """Return the names that ``OPENENV_ALLOWED_HOSTS`` lists, and that of a Hugging Face Space."""
    listed = os.environ.get("OPENENV_ALLOWED_HOSTS", "").split(",")
    names = (name.strip().lower() for name in (*listed, os.environ.get("SPACE_HOST", "")))
    return frozenset(name for name in names if name)


def _is_local(hostname: str | None) -> bool:
    """Tell whether a host is this machine's name for itself, or an address."""
    if hostname == "localhost":
        return True
    try:
        ipaddress.ip_address(hostname or "")
    except ValueError:
        return False
    return True


def _select(protocol: ServerProtocol, offered: Any) -> Subprotocol | None:
    return Subprotocol(SUBPROTOCOL) if SUBPROTOCOL in offered else None


def _unauthorized() -> HttpResponse:
    refused = HttpResponse.of_text(HTTPStatus.UNAUTHORIZED, "A bearer token is missing or wrong.")
    return replace(refused, headers={"WWW-Authenticate": "Bearer"})


def _read_head(head: bytes) -> HttpRequest | None:
    """Read a request head; None where it is none."""
    line = _REQUEST_LINE.match(head)
    if line is None:
        return None
    method, target = (part.decode("ascii") for part in line.groups())
    # As `http.client` reads the headers of answers.
    parsed = email.parser.BytesHeaderParser().parsebytes(head[line.end() :])
    if parsed.defects:
        return None
    path, _, query = target.partition("?")
    return HttpRequest(
        method,
        urllib.parse.unquote(path),
        dict(urllib.parse.parse_qsl(query, keep_blank_values=True)),
        {name.lower(): str(value) for name, value in parsed.items()},
    )
