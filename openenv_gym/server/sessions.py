"""All sessions of a server: capacity, waiting for a place, resume, expiry."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from openenv_gym import errors
from openenv_gym._version import __version__
from openenv_gym.protocol.codec import encode_packet
from openenv_gym.protocol.limits import SHARED_MEMORY, VERSION, Limits
from openenv_gym.protocol.messages import Welcome, check_version
from openenv_gym.protocol.server_session import lost_session
from openenv_gym.server.application import Application
from openenv_gym.server.figures import Figures
from openenv_gym.server.host import Host
from openenv_gym.server.multi_agent import Games, read_multi_agent_options
from openenv_gym.server.peers import PeerBounds
from openenv_gym.server.pinned import PinnedThread
from openenv_gym.server.pool import Pool
from openenv_gym.server.replies import ReplyCoder
from openenv_gym.server.session import Outlet, Session
from openenv_gym.server.sights import describe_held, find_sight
from openenv_gym.server.vector.options import DEFAULT_MAX_ENVS, read_vector_options
from openenv_gym.server.watching import Watcher


__all__ = ["Entrant", "Sessions"]

_log = logging.getLogger(__name__)

Work = Callable[[], None]


class Entrant(Outlet, Protocol):
    """A connection that has said HELLO.

    Attributes:
        shares: The client may share memory.
        peer: Where it comes from.
        arrived_s: When it asked for a session, on the clock of `time.monotonic`.
    """

    shares: bool
    peer: str
    arrived_s: float

    @property
    def coder(self) -> ReplyCoder:
        """How replies are written."""

    def opened(self, session: Session) -> bool:
        """Belong to a session from now on; False where the client has left already."""

    def attached(self) -> None:
        """Know that the session hears it."""

    def refuse(self, error: BaseException) -> None:
        """Answer HELLO with an error, and close."""


class _Waiting(NamedTuple):
    connection: Entrant
    body: dict[str, Any]
    until_s: float


class Sessions:
    """Opens, finds and ends sessions.

    Args:
        app: What is served.
        limits: Of the server.
        pool: Whose threads make environments.
        capacity: Sessions that may exist at once.
        max_waiting: Clients that may wait for a place.
        debug: Send tracebacks to clients.
        pinned_threads: Threads for environments with thread affinity.
        max_envs: Sub-environments that a vector session may have; it takes one place.
        max_sessions_per_peer: Sessions and waiting clients of one peer; None for any number.
        name_prefix: What names of sessions begin with.

    Attributes:
        draining: No session is opened any more.
        figures: What is counted; sessions that exist count for themselves.
        name_prefix: As above.
        why_unwatched: Why no session may be watched; None where they may.
    """

    def __init__(
        self,
        app: Application,
        limits: Limits,
        pool: Pool,
        *,
        capacity: int,
        max_waiting: int,
        debug: bool,
        pinned_threads: int,
        max_envs: int = DEFAULT_MAX_ENVS,
        max_sessions_per_peer: int | None = None,
        name_prefix: str = "",
    ) -> None:
        self.draining = False
        self.name_prefix = name_prefix
        self.figures = Figures()
        self.why_unwatched: str | None = None
        self._app = app
        self._limits = limits
        self._pool = pool
        self._capacity = capacity
        self._max_waiting = max_waiting
        self._debug = debug
        self._lock = threading.Lock()
        self._by_name: dict[str, Session] = {}
        self._places = 0
        self._peers = PeerBounds(max_sessions_per_peer)
        self._waiting: deque[_Waiting] = deque()
        self._pinned: list[PinnedThread] = []
        self._pinned_threads = pinned_threads
        self._max_envs = max_envs
        self._next_pinned = 0
        # With a prefix there are other processes, where the other players may be.
        self._games = None if name_prefix else Games(pool.max_threads // 2)

    def __len__(self) -> int:
        return len(self._by_name)

    def enter(self, connection: Entrant, body: dict[str, Any]) -> Work | None:
        """Answer HELLO; what takes long is returned as work.

        Raises:
            OpenEnvGymError: The session cannot be opened or resumed.
        """
        check_version(body, peer="client")
        match body:
            case {"resume": {"session": str(name)} as resume}:
                with self._lock:
                    session = self._by_name.get(name)
                if session is None:
                    raise lost_session(name)
                connection.opened(session)
                session.resume(connection, resume, self._resumed)
                return None
            case {"watch": {"session": str(name)} as watch}:
                self._watch(connection, name, watch.get("index", 0))
                return None
            case {"open": {"options": dict()} as opening}:
                self._check_package(opening)
                if "multi_agent" in opening:
                    opening["multi_agent"] = read_multi_agent_options(
                        opening["multi_agent"], max_envs=self._max_envs
                    )
                elif "vector" in opening:
                    opening["vector"] = read_vector_options(
                        opening["vector"], max_envs=self._max_envs
                    )
                limit = body.get("max_frame_bytes")
                opening["max_frame_bytes"] = limit if type(limit) is int else 1 << 62
                return self._admit(connection, opening)
        raise errors.ProtocolError(
            "Expected HELLO with a map 'open' (with 'options'), 'resume' or 'watch' (with "
            "'session')."
        )

    def check_watching(self) -> None:
        """Refuse who wants to see what others do, where nobody may.

        Raises:
            ForbiddenOperationError: Nobody may.
        """
        self._app.mode.check("watch")
        if self.why_unwatched is not None:
            raise errors.ForbiddenOperationError(self.why_unwatched, field="watch")

    def list_all(self) -> list[dict[str, Any]]:
        """Return what is told about each session that exists, the oldest first."""
        return [
            {**session.describe(), **describe_held(host)}
            for session in self.each()
            if (host := session.host) is not None
        ]

    def _watch(self, connection: Entrant, name: str, index: Any) -> None:
        """Have a connection watch a session.

        Raises:
            OpenEnvGymError: It may not, or cannot.
        """
        self.check_watching()
        if type(index) is not int:
            raise errors.ProtocolError(f"Expected a number, got {index!r:.40}.", field="index")
        with self._lock:
            session = self._by_name.get(name)
        if session is None:
            raise lost_session(name)

        def make(host: Host) -> Watcher:
            watcher = Watcher(session, connection, *find_sight(host, index))
            connection.opened(watcher)  # type: ignore[arg-type]
            body = {
                "version": list(VERSION),
                "agent": f"openenv-gym/{__version__}",
                "features": [],
                "session": name,
                "limits": self._limits.to_wire(),
                "watch": describe_held(host),
            }
            connection.send_packet(encode_packet(Welcome(body).to_wire()))
            return watcher

        session.watch(make)

    def begin(self, connection: Entrant, options: dict[str, Any]) -> Work | None:
        """Open a session for who says no HELLO; what takes long is returned as work.

        Args:
            connection: Who is told.
            options: What the environment is made with.

        Raises:
            OpenEnvGymError: The session cannot be opened.
        """
        return self._admit(connection, {"options": options, "max_frame_bytes": 1 << 62})

    def expire(self, now_s: float) -> None:
        """End sessions and waits whose time is over."""
        with self._lock:
            overdue = [w for w in self._waiting if now_s > w.until_s]
            for waiting in overdue:
                self._waiting.remove(waiting)
                self._peers.uncount(waiting.connection.peer)
            sessions = list(self._by_name.values())
        for waiting in overdue:
            waiting.connection.refuse(self._full())
        for session in sessions:
            if session.expired(now_s):
                _log.info(
                    "Session %s: expired (%s)",
                    session.name,
                    session.state.value,
                    extra=session.facts,
                )
                session.end()

    def drain(self) -> None:
        """Open no more sessions."""
        self.draining = True
        with self._lock:
            waiting, self._waiting = list(self._waiting), deque()
            for one in waiting:
                self._peers.uncount(one.connection.peer)
        for one in waiting:
            one.connection.refuse(_draining())

    def each(self) -> list[Session]:
        """Return the sessions that exist."""
        with self._lock:
            return list(self._by_name.values())

    def end_all(self) -> None:
        """End every session, those in a step after it."""
        if self._games is not None:
            self._games.stop()  # in whose steps players wait for each other
        for session in self.each():
            session.end()
        for pinned in self._pinned:
            pinned.stop()

    def left(self, connection: object) -> None:
        """Forget a client that waited for a place and has left."""
        if self._waiting:
            with self._lock:
                gone = [one for one in self._waiting if one.connection is connection]
                for one in gone:
                    self._waiting.remove(one)
                    self._peers.uncount(one.connection.peer)

    # -- opening ------------------------------------------------------------------------------

    def _check_package(self, opening: dict[str, Any]) -> None:
        """Refuse a client that expects another environment than the one served here."""
        expected = opening.get("package")
        if expected is not None and expected != self._app.name:
            raise errors.UnknownEnvironmentError(
                f"This server serves {self._app.name!r}, not {expected!r}.",
                field="package",
                hint="Connect to a server of that environment, or take the id openenv/Remote-v0.",
                data={"package": self._app.name},
            )

    def _admit(self, connection: Entrant, opening: dict[str, Any]) -> Work | None:
        if self.draining:
            raise _draining()
        wait_s = opening.get("wait_s", 0.0)
        if not isinstance(wait_s, (int, float)) or not 0 <= wait_s <= 86_400:
            raise errors.ProtocolError("Expected wait_s in 0..86400.", field="wait_s")
        with self._lock:
            self._peers.check(connection.peer)
            if self._places < self._capacity:
                work = self._open_work(connection, opening)  # which may find an option wrong
                self._places += 1
                self._peers.count(connection.peer)
                return work
            if wait_s > 0 and len(self._waiting) < self._max_waiting:
                until_s = time.monotonic() + wait_s
                self._waiting.append(_Waiting(connection, opening, until_s))
                self._peers.count(connection.peer)
                return None
        raise self._full()

    def _open_work(self, connection: Entrant, opening: dict[str, Any]) -> Work:
        if not self._app.pins(opening["options"]):
            return lambda: self._open(connection, opening, None)
        if len(self._pinned) < self._pinned_threads:
            self._pinned.append(PinnedThread())
        pinned = self._pinned[self._next_pinned % len(self._pinned)]
        self._next_pinned += 1
        return lambda: pinned.put(lambda: self._open(connection, opening, pinned))

    def _open(
        self, connection: Entrant, opening: dict[str, Any], pinned: PinnedThread | None
    ) -> None:
        """Make the environment and answer with WELCOME, or with what was wrong."""
        host: Host | None = None
        session: Session | None = None
        try:
            options, vector = opening["options"], opening.get("vector")
            many = opening.get("multi_agent")
            if many is not None:
                host = self._app.open_multi_agent(options, many, self._games)
            elif vector is None:
                host = self._app.open(options)
            else:
                host = self._app.open_vector(options, vector, self._pool.max_threads)
            session = Session(
                self._limits,
                host,
                ended=self._forget,
                max_reply_bytes=opening["max_frame_bytes"],
                coder=connection.coder,
                mode=self._app.mode,
                debug=self._debug,
                pinned=pinned,
                peer=connection.peer,
                figures=self.figures,
            )
            session.protocol.name = f"{self.name_prefix}{session.name}"
            packet: list[Any] = []
            if connection.coder.resumable:
                environment = {
                    **host.describe(),
                    "package": self._app.name,
                    "version": self._app.version,
                    "schemas": host.schemas(),
                }
                body = {**self._welcome(session), "environment": environment}
                if connection.shares:
                    body["features"] = [SHARED_MEMORY]
                packet = encode_packet(Welcome(body).to_wire())
        except BaseException as error:  # an environment may well call sys.exit()
            if self._debug and not isinstance(error, errors.OpenEnvGymError):
                _log.warning(
                    "Cannot make the environment:\n%s",
                    traceback.format_exc(),
                    extra={"peer": connection.peer},
                )
            if host is not None:
                with contextlib.suppress(BaseException):
                    host.close()
            self._leave(connection.peer)
            connection.refuse(error)
            return
        with self._lock:
            self._by_name[session.name] = session
        _log.info("Session %s: opened for %s", session.name, session.peer, extra=session.facts)
        self.figures.claim(int((time.monotonic() - connection.arrived_s) * 1e9))
        if connection.opened(session):
            session.attach(connection, packet)
            connection.attached()
        else:  # the client has left meanwhile, and nobody knows the token
            session.end()

    def _welcome(self, session: Session) -> dict[str, Any]:
        return {
            "version": list(VERSION),
            "agent": f"openenv-gym/{__version__}",
            "features": [],
            "session": session.name,
            "token": session.protocol.token,
            "epoch": session.protocol.epoch,
            "limits": self._limits.to_wire(),
        }

    def _resumed(self, session: Session) -> list[Any]:
        body = {**self._welcome(session), "received": session.protocol.received}
        return Welcome(body).to_wire()

    def _forget(self, session: Session) -> None:
        with self._lock:
            known = self._by_name.pop(session.name, None)
            if known is not None:
                self.figures.end_session(known.steps)
        if known is not None:
            _log.info("Session %s: ended", session.name, extra=session.facts)
            self._leave(session.peer)

    def _leave(self, peer: str) -> None:
        """Give a peer's place back, and let the next in."""
        with self._lock:
            self._peers.uncount(peer)
        while True:
            with self._lock:
                if not self._waiting or self.draining:
                    self._places -= 1
                    return
                waiting = self._waiting.popleft()
                try:
                    work: Work | BaseException = self._open_work(waiting.connection, waiting.body)
                except BaseException as error:
                    self._peers.uncount(waiting.connection.peer)
                    work = error
            if not isinstance(work, BaseException):
                self._pool.spawn(work)
                return
            waiting.connection.refuse(work)  # and the next one may come

    @property
    def taken(self) -> int:
        """Places that are taken, also by sessions that are still being opened."""
        return self._places

    @property
    def waiting(self) -> int:
        """Clients that wait for a place."""
        return len(self._waiting)

    @property
    def capacity(self) -> int:
        """Sessions that may exist at once."""
        return self._capacity

    def sum_figures(self) -> Figures:
        """Return figures of all sessions, past and present."""
        with self._lock:
            figures = self.figures.copy()
            for session in self._by_name.values():
                figures.steps.merge(session.steps)
        return figures

    def _full(self) -> errors.CapacityError:
        return errors.CapacityError(
            f"The server holds {len(self)} of at most {self._capacity} sessions.",
            hint="Close environments, wait for a place (wait_s=), or raise the capacity.",
            data={"sessions": len(self), "capacity": self._capacity},
        )


def _draining() -> errors.ServerDrainingError:
    return errors.ServerDrainingError(
        "The server is shutting down and opens no session.", hint="Connect to another server."
    )
