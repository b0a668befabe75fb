"""A server: listeners, connections and sessions around one pool of threads."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar

from openenv_gym import errors
from openenv_gym.metrics import CONTENT_TYPE
from openenv_gym.protocol.codec import encode_packet
from openenv_gym.protocol.limits import PATH, Limits
from openenv_gym.protocol.messages import Goaway
from openenv_gym.server.application import Application
from openenv_gym.server.connection import Connection
from openenv_gym.server.dialects import Dialect
from openenv_gym.server.dialing import OwnerDialer
from openenv_gym.server.doors import Doors
from openenv_gym.server.figures import Figures, write_figures
from openenv_gym.server.http import Router, trusted_hosts
from openenv_gym.server.http_messages import HttpRequest, HttpResponse, Note, Route
from openenv_gym.server.listening import Exposure
from openenv_gym.server.mcp.attached import AttachedDialect
from openenv_gym.server.mcp.dialect import McpDialect
from openenv_gym.server.mcp.endpoint import MCP_PATH, McpEndpoint
from openenv_gym.server.mode import Mode
from openenv_gym.server.openenv.dialect import JsonDialect
from openenv_gym.server.openenv.routes import OpenEnvRoutes
from openenv_gym.server.poller import Event
from openenv_gym.server.pool import Pool
from openenv_gym.server.request_reader import BodyRoom
from openenv_gym.server.sessions import Sessions
from openenv_gym.server.vector.options import DEFAULT_MAX_ENVS


if TYPE_CHECKING:
    import ssl

    from openenv_gym.server.tls import TlsRelays
    from openenv_gym.server.web import WebDoor

__all__ = ["SESSIONS_PATH", "Server"]

_log = logging.getLogger(__name__)

SESSIONS_PATH = "/sessions"


class Server:
    """Serves one application on any number of addresses.

    Args:
        app: What is served.
        limits: Sizes and times.
        capacity: Sessions that may exist at once.
        max_waiting: Clients that may wait for a place.
        max_threads: Bound of the pool.
        max_envs: Sub-environments that a vector session may have; it takes one place.
        pinned_threads: Threads for environments with thread affinity.
        token: Credential that clients must show.
        exposure: Who can reach it where it asks for no token.
        tls: What it shows to clients on TCP ports, which then speak TLS; see `server_context`.
        max_sessions_per_peer: Sessions and waiting clients of one address; None for any number.
        peer_header: Header in which a proxy, through which alone clients come, tells who they are.
        admitted: Another process has checked who connects.
        debug: Send tracebacks to clients.
        web: Show a page at ``/web``.

    Attributes:
        mcp: What answers at ``/mcp``.
        openenv: OpenEnv's routes.
        figures: What is counted.
        left: How many connections have closed since it began.
    """

    connection_class: ClassVar[type[Connection]] = Connection

    def __init__(
        self,
        app: Application,
        *,
        limits: Limits | None = None,
        capacity: int = 4096,
        max_waiting: int = 4096,
        max_threads: int = 64,
        max_envs: int = DEFAULT_MAX_ENVS,
        pinned_threads: int = 4,
        token: str | None = None,
        exposure: Exposure | None = None,
        tls: ssl.SSLContext | None = None,
        max_sessions_per_peer: int | None = None,
        peer_header: str | None = None,
        admitted: bool = False,
        debug: bool = False,
        web: bool = False,
    ) -> None:
        web = web or app.web
        self.app = app
        self.limits = limits or Limits()
        self.left = 0
        self._token = token
        self._exposure = exposure
        self.pool = Pool(max_threads=max_threads, housekeeping=self._keep_house)
        self.sessions = self._make_sessions(
            capacity=capacity,
            max_waiting=max_waiting,
            debug=debug,
            pinned_threads=pinned_threads,
            max_envs=max_envs,
            max_sessions_per_peer=max_sessions_per_peer,
        )
        self.sessions.why_unwatched = _why_unwatched(token, exposure)
        self.figures = self.sessions.figures
        self.bodies = BodyRoom(self.limits.max_frame_bytes)
        self.mcp = McpEndpoint(self.sessions, app.name)
        self.openenv = OpenEnvRoutes(
            self.sessions,
            app.name,
            app.version,
            lambda: self._schemas,
            lambda: self.router.routes,
        )
        self.router = Router(
            self._routes(),
            token=token,
            websockets=(PATH, MCP_PATH),
            hosts=trusted_hosts(),
            max_body_bytes=self.limits.max_frame_bytes,
            admitted=admitted,
            peer_header=peer_header,
            web=web,
        )
        self._lock = threading.Lock()
        self._connections: set[Connection] = set()
        self._over = False
        self._relays: TlsRelays | None = None
        if tls is not None:
            from openenv_gym.server.tls import TlsRelays

            self._relays = TlsRelays(
                self.pool, tls, handshake_s=self.limits.handshake_timeout_s, serve=self.adopt
            )
        self._doors = Doors(
            self.pool,
            self.adopt,
            adopt_tcp=self.adopt if self._relays is None else self._relays.accept,
        )
        self._web = self._make_web() if web else None
        self._stop_fd, self._stop_end = os.pipe()

    def _make_sessions(self, **options: Any) -> Sessions:
        """Make what HELLO leads to; one of several processes does it in another way."""
        return Sessions(self.app, self.limits, self.pool, **options)

    def _make_web(self) -> WebDoor:
        from openenv_gym.server.web import WebDoor

        return WebDoor(self._doors, self._token, lambda: self._facts, tls=self._relays is not None)

    # -- addresses ----------------------------------------------------------------------------

    def listen_tcp(self, host: str, port: int) -> tuple[str, int]:
        """Listen on a TCP port (0: any free one) and return the address.

        Raises:
            InvalidOptionError: Others than this machine could connect, no token is asked for, and
                nobody has declared that this is meant.
            AddressInUseError: The port is taken.
        """
        exposed = self._token is not None or self._exposure is not None
        return self._doors.listen_tcp(host, port, exposed=exposed)

    def listen_unix(self, path: str) -> None:
        """Listen on a Unix socket that its owner alone may use; a stale one is replaced.

        Raises:
            AddressInUseError: Somebody listens there, or the path is not a socket.
        """
        self._doors.listen_unix(path)

    def adopt(
        self,
        sock: socket.socket,
        peer: str = "inherited",
        *,
        first_bytes: Callable[[], None] | None = None,
    ) -> None:
        """Serve a connected socket.

        Args:
            sock: The socket.
            peer: Where it comes from, for logs.
            first_bytes: Called when the peer begins to speak, or hangs up; it may take its time.
        """
        self._serve(self.connection_class(self, sock, peer, first_bytes=first_bytes))

    def _serve(self, connection: Connection) -> None:
        with self._lock:
            over = self._over
            if not over:
                self._connections.add(connection)
        if over:  # it was accepted while the server stopped
            connection.finish(1001, "the server stops")
        else:
            self.pool.add(connection.fileno(), connection.on_event)

    def adopt_channel(self, channel: socket.socket) -> None:
        """Serve the sockets that a parent process sends through a channel; its end is ours.

        The channel is a ``SOCK_SEQPACKET`` or datagram socket pair; each message carries one
        connected socket (``SCM_RIGHTS``).
        """
        self._doors.open_channel(channel, self.request_stop)

    def watch_owner(self, fd: int) -> None:
        """Stop this server when a descriptor that its owner holds the other end of ends."""

        def on_event(event: Event) -> None:
            if os.read(fd, 4096):
                self.pool.arm(fd)
            else:
                _log.info("The owner is gone")
                self.request_stop()

        self.pool.add(fd, on_event)

    def dial_owner(self, path: str) -> None:
        """Serve an owner who listens on a Unix socket and whom we dial.

        One connection always waits for him; when he begins to use it, the next one is made. When
        he stops listening, this server stops too. Each begins with the key that he left in
        ``PATH.key`` (docs/protocol.md, section 1), which nobody else in this place can read by
        the time that an environment runs.

        Raises:
            TransportError: He does not listen there, or left no key.
        """
        OwnerDialer(path, self.adopt, self.request_stop).begin()

    # -- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to serve."""
        self.pool.start()
        if self._web is not None:
            self._web.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until `request_stop` was called, or the owner of a channel is gone."""
        return bool(select.select([self._stop_fd], [], [], timeout_s)[0])

    def request_stop(self) -> None:
        """Make `wait` return. Safe in a signal handler, where a lock would not be."""
        os.write(self._stop_end, b"x")

    def drain(self, timeout_s: float, *, reloads: bool = False) -> bool:
        """Open no more sessions, tell clients, and wait for theirs to end.

        Args:
            timeout_s: How long to wait.
            reloads: It is started anew, with edited code.

        Returns:
            Whether all sessions ended in time.
        """
        self.sessions.drain()
        if self._web is not None:
            self._web.stop()  # whose sessions would keep us waiting
        notice = {"reason": "the server is shutting down", "after_s": timeout_s}
        if reloads:
            notice |= {"reason": "the server starts anew after an edit", "reload": True}
        packet = encode_packet(Goaway(notice).to_wire())
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.notify(packet)
        end_s = time.monotonic() + timeout_s
        while len(self.sessions) and time.monotonic() < end_s:
            time.sleep(0.02)
        return not len(self.sessions)

    def stop(self, timeout_s: float = 5.0) -> None:
        """End all sessions and connections, and free the addresses. Call it once."""
        self.sessions.drain()
        if self._web is not None:
            self._web.stop()
        self._doors.close()
        self.sessions.end_all()
        with self._lock:
            self._over = True
            connections = list(self._connections)
        for connection in connections:
            connection.finish(1001, "the server stops")
        if self._relays is not None:
            self._relays.finish()
        self.pool.stop(timeout_s)
        os.close(self._stop_fd)
        os.close(self._stop_end)

    def close_after_fork(self) -> None:
        """In a child that the environment forked: do not keep what belongs to this server open."""
        descriptors = self._doors.descriptors()
        descriptors |= {connection.fileno() for connection in self._connections}
        if self._relays is not None:
            descriptors |= self._relays.descriptors()
        if self._web is not None:
            descriptors |= self._web.descriptors()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (*descriptors, *self.pool.poller.descriptors()):
            if descriptor >= 0:
                # Replaced and not closed: the objects in this child still hold the numbers.
                with contextlib.suppress(OSError):
                    os.dup2(nothing, descriptor, inheritable=False)
        os.close(nothing)

    def show_page(self, fd: int, peer: str, said: bytes) -> bool:
        """Hand a connection, and what it has said, to the page's program; False: not taken."""
        return self._web is not None and self._web.take(fd, peer, said)

    def forget(self, connection: Connection) -> None:
        """Drop a connection that has closed."""
        with self._lock:
            self._connections.discard(connection)
            self.figures.end_connection(connection.received_bytes, connection.sent_bytes)
            self.left += 1

    def _keep_house(self, now_s: float) -> None:
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.expire(now_s)
        if self._relays is not None:
            self._relays.expire(now_s)
        self.sessions.expire(now_s)

    # -- routes -------------------------------------------------------------------------------

    def _routes(self) -> list[Route]:
        """Return what is served beside the WebSocket."""
        health = Note("Whether the server takes sessions", "Health")
        metadata = Note("Name, description and more of the environment", "Environment Info")
        return [
            Route("GET", "/health", self._health, open=True, quick=True, note=health),
            Route("GET", "/metadata", self._metadata, note=metadata),
            Route("GET", "/metrics", self._metrics),
            Route("GET", SESSIONS_PATH, self._list_sessions),
            *(self.openenv.control() if self.app.mode is Mode.SIMULATION else []),
            *self.openenv.information(),
            *self.mcp.routes(),
        ]

    def _health(self, request: HttpRequest) -> HttpResponse:
        if self.sessions.draining:
            return HttpResponse.of_json({"status": "draining"}, HTTPStatus.SERVICE_UNAVAILABLE)
        return HttpResponse.of_json({"status": "healthy"})

    def _metadata(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse.of_json(self._facts)

    def _metrics(self, request: HttpRequest) -> HttpResponse:
        sessions = self.sessions
        text = write_figures(
            self.sum_figures(),
            active=sessions.taken,
            queued=sessions.waiting,
            capacity=sessions.capacity,
        )
        return HttpResponse(HTTPStatus.OK, text.encode(), CONTENT_TYPE)

    def _list_sessions(self, request: HttpRequest) -> HttpResponse:
        try:
            self.sessions.check_watching()
        except errors.ForbiddenOperationError as error:
            return HttpResponse.of_text(HTTPStatus.FORBIDDEN, str(error))
        return HttpResponse.of_json({"sessions": self.sessions.list_all()})

    def sum_figures(self) -> Figures:
        """Return figures of all sessions and connections, past and present."""
        # One that closes meanwhile must be among the past or the present ones.
        with self._lock:
            figures = self.sessions.sum_figures()
            for connection in self._connections:
                figures.received_bytes += connection.received_bytes
                figures.sent_bytes += connection.sent_bytes
        return figures

    def make_dialect(self, connection: Connection, request: HttpRequest) -> Dialect:
        """Return what is spoken on a WebSocket whose client offered no subprotocol."""
        if request.path == MCP_PATH:
            return McpDialect(connection)
        if "session_id" in request.query:
            return AttachedDialect(connection, self.mcp, request.query["session_id"])
        return JsonDialect(connection)

    @functools.cached_property
    def _facts(self) -> dict[str, Any]:
        return self.app.metadata()

    @functools.cached_property
    def _schemas(self) -> dict[str, Any]:
        return self.app.schemas()


def _why_unwatched(token: str | None, exposure: Exposure | None) -> str | None:
    """Return why nobody may see what others do; None where whoever gets in may."""
    if token is None and exposure is Exposure.PUBLIC:
        return "Everybody can reach this server, so nobody sees the sessions of others."
    return None
