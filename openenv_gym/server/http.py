"""The HTTP side of a server: which request leads where. Nothing here does I/O.

The `websockets` library decides about the opening of a WebSocket; what else HTTP asks for are a
few routes with small JSON bodies, one request for each connection.
"""

from __future__ import annotations

import contextlib
import email.parser
import hmac
import ipaddress
import logging
import os
import re
import urllib.parse
from collections.abc import Iterable
from dataclasses import replace
from http import HTTPStatus
from typing import Any, NamedTuple

from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from openenv_gym.protocol.limits import PATH, SUBPROTOCOL, Limits
from openenv_gym.server.http_messages import HttpRequest, HttpResponse, Route
from openenv_gym.server.peers import forwarded_peer
from openenv_gym.server.web_paths import is_web_path, knows_token


__all__ = ["MAX_HEAD_BYTES", "Call", "Handover", "Router", "Upgrade", "trusted_hosts"]

MAX_HEAD_BYTES = 16 << 10

_HOSTS_VARIABLE = "OPENENV_ALLOWED_HOSTS"

# Handed to `websockets`, which would ask for it each time: that takes a lock of the whole process.
_log = logging.getLogger("websockets.server")

_REQUEST_LINE = re.compile(rb"([A-Z]{1,20}) (/[\x21-\x7e]*) HTTP/1\.[01]\r\n")


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


class Handover(NamedTuple):
    """Another program has the connection from now on.

    Attributes:
        request: What was asked for.
    """

    request: HttpRequest


class Router:
    """Decides about the first request of a connection.

    Args:
        routes: What is served beside the WebSocket.
        token: Credential that every WebSocket and every route that is not open asks for.
        websockets: Paths on which a WebSocket without a subprotocol is taken.
        hosts: Names under which pages of this server itself may use it.
        max_body_bytes: Largest body.
        admitted: Somebody else has checked the credential and the origin of what comes here.
        peer_header: Where a proxy tells who connects.
        web: There is a page, whose program answers for its paths.
    """

    def __init__(
        self,
        routes: Iterable[Route],
        *,
        token: str | None = None,
        websockets: Iterable[str] = (PATH,),
        hosts: Iterable[str] = (),
        max_body_bytes: int = Limits.max_frame_bytes,
        admitted: bool = False,
        peer_header: str | None = None,
        web: bool = False,
    ) -> None:
        self._web = web
        self.routes = tuple(routes)
        self._token = token
        self._websockets = frozenset(websockets)
        self._hosts = frozenset(hosts)
        self._max_body_bytes = max_body_bytes
        self._admitted = admitted
        self._peer_header = None if peer_header is None else peer_header.lower()

    def peer_behind(self, request: HttpRequest) -> str | None:
        """Return who is behind the proxy that a request came through; None: it told nobody."""
        if self._peer_header is None:
            return None
        return forwarded_peer(request.headers.get(self._peer_header, ""))

    def answer(self, head: bytes) -> Upgrade | Call | Handover | HttpResponse:
        """Decide about a complete request head, up to and with its empty line."""
        request = _read_head(head)
        if request is None:
            return HttpResponse.of_text(
                HTTPStatus.BAD_REQUEST, "Not a request that is served here: expected HTTP/1.1."
            )
        answer = self._answer(request)
        if isinstance(answer, HttpResponse) and request.method == "HEAD":
            return replace(answer, bare=True)
        return answer

    def _answer(self, request: HttpRequest) -> Upgrade | Call | Handover | HttpResponse:
        if not self._admitted and (refusal := self._refuse_origin(request)) is not None:
            return refusal
        if self._web and is_web_path(request.path):
            return self._hand_over(request)
        if "upgrade" in request.headers and request.path in self._websockets:
            return self._upgrade(request)
        # Who asks for the head of an answer gets just that.
        method = "GET" if request.method == "HEAD" else request.method
        matching = [
            (route, parameters)
            for route in self.routes
            if (parameters := route.match(request.path)) is not None
        ]
        for route, parameters in matching:
            if route.method == method:
                return self._call(route, replace(request, parameters=parameters))
        if request.path in self._websockets and request.method == "GET":
            return self._upgrade(request)  # which says what a WebSocket needs
        return self._not_found(request, sorted({route.method for route, _ in matching}))

    def refuse_tls(self) -> HttpResponse:
        """Answer who begins with a TLS handshake."""
        return HttpResponse.of_text(
            HTTPStatus.BAD_REQUEST, "No TLS is spoken here: use http:// or ws://."
        )

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

    def _upgrade(self, request: HttpRequest) -> Upgrade | HttpResponse:
        if not self._authorized(request):
            return _unauthorized()
        protocol = ServerProtocol(
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            # Without a subprotocol the client speaks OpenEnv's JSON.
            select_subprotocol=_select,
            extensions=None,
            logger=_log,
        )
        protocol.receive_data(request.head)
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

    def _hand_over(self, request: HttpRequest) -> Handover | HttpResponse:
        """Let a browser's user in, who gives the token as a password."""
        given_host = request.headers.get("host", "")
        try:
            host = urllib.parse.urlsplit(f"//{given_host}").hostname
        except ValueError:  # such as ``[``
            return HttpResponse.of_text(
                HTTPStatus.BAD_REQUEST, f"Host is {given_host[:200]!r}, expected a name."
            )
        if not self._is_own(host):
            return HttpResponse.of_text(
                HTTPStatus.FORBIDDEN,
                f"The page is not shown under the name {(host or '')[:200]!r}, which anybody's "
                f"pages could have: set {_HOSTS_VARIABLE} to it, or a token, or use an address.",
            )
        given = request.headers.get("authorization", "")
        if self._token is None or self._authorized(request) or knows_token(given, self._token):
            return Handover(request)
        refused = HttpResponse.of_text(
            HTTPStatus.UNAUTHORIZED, "The token is asked for, as the password of any user."
        )
        return replace(refused, headers={"WWW-Authenticate": 'Basic realm="openenv-gym"'})

    def _is_own(self, host: str | None) -> bool:
        """Tell whether a name can be trusted to be this server's, or whoever uses it is known."""
        return self._token is not None or _is_local(host) or host in self._hosts

    def _not_found(self, request: HttpRequest, methods: list[str]) -> HttpResponse:
        if methods:
            taken = ", ".join(methods)
            refused = HttpResponse.of_text(
                HTTPStatus.METHOD_NOT_ALLOWED, f"{request.path} takes {taken}."
            )
            return replace(refused, headers={"Allow": taken})
        known = sorted({*(route.path for route in self.routes), *self._websockets})
        return HttpResponse.of_text(
            HTTPStatus.NOT_FOUND, f"No such path; there are {', '.join(known)}."
        )

    def _authorized(self, request: HttpRequest) -> bool:
        if self._token is None or self._admitted:
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
        with contextlib.suppress(ValueError):  # such as ``http://[``
            site = urllib.parse.urlsplit(origin)
            if site.netloc == request.headers.get("host") and self._is_own(site.hostname):
                return None
        return HttpResponse.of_text(
            HTTPStatus.FORBIDDEN, f"Pages of {origin[:200]!r} may not use this server."
        )


def trusted_hosts() -> frozenset[str]:
    """Return the names that ``OPENENV_ALLOWED_HOSTS`` lists, and that of a Hugging Face Space."""
    listed = os.environ.get(_HOSTS_VARIABLE, "").split(",")
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
    # Two lengths of one body are how a request is hidden in another one.
    if parsed.defects or len(parsed.get_all("Content-Length", [])) > 1:
        return None
    path, _, query = target.partition("?")
    return HttpRequest(
        method,
        urllib.parse.unquote(path),
        dict(urllib.parse.parse_qsl(query, keep_blank_values=True)),
        {name.lower(): str(value) for name, value in parsed.items()},
        head=head,
    )
