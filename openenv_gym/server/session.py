"""A session: an environment, the requests that wait for it, and the connection it is heard on."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol

from openenv_gym import errors
from openenv_gym.metrics import Tally
from openenv_gym.protocol.codec import encode_packet, move_buffers, packet_size
from openenv_gym.protocol.limits import Limits
from openenv_gym.protocol.messages import Failure, Request, Result, error_to_wire
from openenv_gym.protocol.server_session import ServerSession, lost_session
from openenv_gym.server.exhaustion import limit_reached
from openenv_gym.server.figures import Figures
from openenv_gym.server.host import Host
from openenv_gym.server.mode import Mode
from openenv_gym.server.pinned import PinnedThread
from openenv_gym.server.replies import PACKETS, ReplyCoder


__all__ = ["Outlet", "Session", "SessionState", "Spectator"]

_log = logging.getLogger(__name__)


_STEPS = frozenset({"step", "json_step"})


class Outlet(Protocol):
    """The connection on which a session is heard, as far as the session needs it."""

    @property
    def congested(self) -> bool:
        """So much waits to be sent that no more should be produced."""

    def send_packet(self, parts: Sequence[bytes | memoryview]) -> None:
        """Send a message; never blocks and never raises."""

    def finish(self) -> None:
        """Close in order, after what was sent before."""

    def fence(self) -> None:
        """Close, because a newer connection took the session over."""


class Spectator(Protocol):
    """Who is told what a session's operations lead to."""

    def tell(self, op: str, args: list[Any], value: Any) -> None:
        """Know what an operation led to; never waits and never raises."""

    def end(self) -> None:
        """Know that the session has ended."""


class SessionState(Enum):
    """Where a session stands."""

    ATTACHED = "attached"
    """A connection is heard."""
    DETACHED = "detached"
    """The connection broke; the grace period runs."""
    ENDED = "ended"
    """No request is taken any more."""


class Session:
    """Runs the requests of one client one after the other.

    Whichever thread brought the first waiting request runs them (`run`), until none is left.

    Args:
        limits: Of the server.
        host: The environment, or several of them.
        max_reply_bytes: Largest message that the client takes.
        ended: Called once, when the environment is closed.
        coder: Writes replies.
        mode: What whoever is connected may do.
        debug: Send tracebacks along.
        pinned: The only thread that touches the environment, where it asks for one.
        peer: Who opened it.
        figures: Where errors are counted.

    Attributes:
        peer: As above.
        steps: How long steps took.
    """

    def __init__(
        self,
        limits: Limits,
        host: Host,
        *,
        ended: Callable[[Session], None],
        max_reply_bytes: int,
        coder: ReplyCoder = PACKETS,
        mode: Mode = Mode.SIMULATION,
        debug: bool = False,
        pinned: PinnedThread | None = None,
        peer: str = "",
        figures: Figures | None = None,
    ) -> None:
        self.peer = peer
        self.steps = Tally()
        self._figures = figures or Figures()
        self.protocol = ServerSession(limits)
        self.state = SessionState.DETACHED
        self._begun = False  # somebody has heard it
        self.last_used_s = time.monotonic()
        self._host: Host | None = host
        self._ended = ended
        self._max_reply_bytes = max_reply_bytes
        self._coder = coder
        self._mode = mode
        self._debug = debug
        self._pinned = pinned
        self._lock = threading.Lock()
        self._connection: Outlet | None = None
        self._busy = False
        self._running = False  # a request other than `close`
        self._memory: memoryview | None = None  # shared with the client
        self._memory_reply = 0  # the last reply whose arrays are there
        self._spectators: tuple[Spectator, ...] = ()

    @property
    def name(self) -> str:
        """Public name, fit for logs."""
        return self.protocol.name

    @property
    def host(self) -> Host | None:
        """What it holds; None where it has ended."""
        return self._host

    @property
    def facts(self) -> dict[str, str]:
        """What a log says beside its text."""
        return {"session": self.name, "peer": self.peer}

    # -- connections --------------------------------------------------------------------------

    def attach(self, connection: Outlet, welcome: list[Any]) -> None:
        """Be heard on a first connection, beginning with a welcome, written; it may be empty."""
        with self._lock:
            self._connection = connection
            self.state = SessionState.ATTACHED
            self._begun = True
            if welcome:
                connection.send_packet(welcome)

    def resume(
        self, connection: Outlet, body: dict[str, Any], welcome: Callable[[Session], list[Any]]
    ) -> None:
        """Be heard on a newer connection: WELCOME, then the replies that it has not seen.

        Raises:
            SessionLostError: Token or epoch are not right, or the session has ended.
            ProtocolError: The map ``resume`` has the wrong form.
        """
        with self._lock:
            if self.state is SessionState.ENDED:
                raise lost_session(self.name)
            replies = self.protocol.resume(body)
            older, self._connection = self._connection, connection
            self.state = SessionState.ATTACHED
            self.last_used_s = time.monotonic()
            connection.send_packet(encode_packet(welcome(self)))
            for id_, parts in replies:
                if parts is None:
                    lost = errors.SessionLostError(
                        f"The reply to request {id_} is no longer kept: more than "
                        f"{self.protocol.limits.retain_bytes} bytes were waiting."
                    )
                    parts = encode_packet(Failure(id_, error_to_wire(lost)).to_wire())
                connection.send_packet(parts)
        if older is not None:
            older.fence()

    def detach(self, connection: Outlet) -> None:
        """Note that a connection broke."""
        with self._lock:
            if self._connection is connection:
                self._connection = None
                self.last_used_s = time.monotonic()
                if self.state is SessionState.ATTACHED:
                    self.state = SessionState.DETACHED

    def expired(self, now_s: float) -> bool:
        """Tell whether the grace period or the idle limit is over."""
        with self._lock:
            limits = self.protocol.limits
            unused_s = now_s - self.last_used_s
            if self._busy or not self._begun or self.state is SessionState.ENDED:
                return False
            if self.state is SessionState.DETACHED:
                return unused_s > limits.resume_grace_s
            return unused_s > limits.idle_timeout_s

    # -- spectators ---------------------------------------------------------------------------

    def watch(self, make: Callable[[Host], Spectator]) -> Spectator:
        """Tell somebody, from the next operation on, what operations lead to.

        Args:
            make: Makes who is told of what the session holds.

        Raises:
            SessionLostError: The session has ended.
            OpenEnvGymError: It cannot be watched.
        """
        with self._lock:
            host = self._host
            if host is None or self.state is SessionState.ENDED:
                raise lost_session(self.name)
            spectator = make(host)
            self._spectators = (*self._spectators, spectator)
        return spectator

    def unwatch(self, spectator: Spectator) -> None:
        """Tell somebody no more."""
        with self._lock:
            left = tuple(each for each in self._spectators if each is not spectator)
            self._spectators = left

    def describe(self) -> dict[str, Any]:
        """Return what a list of sessions says about this one, but for what it holds."""
        with self._lock:  # who was told that it watches is among them, see `watch`
            watchers = len(self._spectators)
        return {
            "session": self.name,
            "peer": self.peer,
            "connected": self.state is SessionState.ATTACHED,
            "steps": sum(self.steps.counts),
            "idle_s": round(time.monotonic() - self.last_used_s, 1),
            "watchers": watchers,
        }

    # -- requests -----------------------------------------------------------------------------

    def submit(self, request: Request, connection: Outlet) -> Callable[[], None] | None:
        """Queue a request; what is returned is the caller's to do, soon.

        Raises:
            ProtocolError: The request is out of order, or one too many.
        """
        with self._lock:
            if self._connection is not connection or self.state is SessionState.ENDED:
                return None  # fenced: a newer connection speaks for this session
            if not self.protocol.receive(request, time.perf_counter_ns()):
                return None
            return self._begin()

    def go_on(self) -> Callable[[], None] | None:
        """Take up the requests that wait, now that the connection has room again."""
        with self._lock:
            return self._begin()

    def _begin(self) -> Callable[[], None] | None:
        """Return the work of running what waits, unless somebody is at it; with the lock held."""
        if self._busy or not self.protocol.queue or self.state is SessionState.ENDED:
            return None
        if self._is_congested():
            return None  # it asks again when it has room
        self._busy = True
        return self.run if self._pinned is None else self._run_pinned

    def _is_congested(self) -> bool:
        return self._connection is not None and self._connection.congested

    def share(self, memory: memoryview) -> None:
        """Leave large arrays of replies in memory that the client has mapped, too."""
        with self._lock:
            self._memory = memory

    def acknowledge(self, ack: int) -> None:
        """Forget replies that the client has."""
        with self._lock:
            self.protocol.acknowledge(ack)

    def cancel(self, id_: int) -> None:
        """Withdraw a request that has not begun."""
        with self._lock:
            self.protocol.cancel(id_)

    def run(self) -> None:
        """Run what is queued, until nothing is, or the connection has no room for replies."""
        queue = self.protocol.queue
        while True:
            with self._lock:
                over = self.state is SessionState.ENDED
                if not queue or self._is_congested() or over:
                    self._busy = over  # nobody else ends it then
                    self.last_used_s = time.monotonic()
                    break
                request, arrived_ns = queue.popleft()
                self._running = request.op != "close"
                # What the client has not confirmed may point into arrays that now change.
                self.protocol.replies.detach()
            parts = self._answer(request, arrived_ns)
            with self._lock:
                self._running = False
                if self._memory is not None:
                    parts = self._move(request.id, parts, self._memory)
                if self._coder.resumable:
                    self.protocol.replies.add(request.id, parts)
                if request.op == "close":
                    self.state = SessionState.ENDED
                if self._connection is not None and parts:
                    self._connection.send_packet(parts)
        if over:
            self._dispose()

    def _move(self, id_: int, parts: list[Any], memory: memoryview) -> list[Any]:
        """Return what is left to be sent of a reply, with its arrays in shared memory if it can."""
        if self.protocol.replies.acknowledged < self._memory_reply:
            return parts  # the client may still be reading there
        moved = move_buffers(parts, memory)
        if moved is None:
            return parts
        self._memory_reply = id_
        return moved

    def _run_pinned(self) -> None:
        assert self._pinned is not None
        self._pinned.put(self.run)

    def end(self) -> None:
        """End the session now, or after the request that runs."""
        with self._lock:
            idle = self._mark_ended()
        if idle:
            self._dispose_in_its_thread()

    def part(self) -> bool:
        """End the session, and close its connection then; False, and nothing, where one runs."""
        with self._lock:
            if self._running:  # for which nobody waits
                return False
            idle = self._mark_ended()
        if idle:
            self._dispose_in_its_thread()
        return True

    def _mark_ended(self) -> bool:
        """Let no request begin, with the lock held; tell whether the rest is the caller's to do."""
        ended, self.state = self.state, SessionState.ENDED
        idle = not self._busy and ended is not SessionState.ENDED
        self._busy = True  # nobody else closes the environment
        return idle

    def _dispose_in_its_thread(self) -> None:
        if self._pinned is None:
            self._dispose()
        else:
            self._pinned.put(self._dispose)

    def _dispose(self) -> None:
        self._release()
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.finish()

    def _release(self) -> None:
        """Close the environment and give the place back; safe to repeat."""
        with self._lock:
            host, self._busy = self._host, True
            if host is None:
                return
            self._host = self._memory = None
            spectators, self._spectators = self._spectators, ()
        for spectator in spectators:
            spectator.end()
        try:
            host.close()
        except BaseException:
            _log.exception(
                "Session %s: close() of the environment failed", self.name, extra=self.facts
            )
        self._ended(self)

    def _answer(self, request: Request, arrived_ns: int) -> list[Any]:
        """Run one request and return its encoded reply: there is one, whatever happens."""
        begin_ns = time.perf_counter_ns()
        options, host = request.options, self._host
        extras: dict[str, Any] = {}
        try:
            if host is None:
                raise lost_session(self.name)
            if options:
                _check_deadline(options, begin_ns - arrived_ns)
            if request.op == "refuse" and isinstance(request.args[0], errors.OpenEnvGymError):
                raise request.args[0]  # in its turn; no peer can send an exception
            self._mode.check(request.op)
            if request.op == "cancelled":
                raise errors.CancelledError("The request was cancelled before it ran.")
            if request.op == "close":
                self._release()  # first: who has the answer may open another session at once
                return self._coder.result(Result(request.id, None, [0, 0], {}), "close")
            try:
                value, took_ns = host.execute(
                    request.op, request.args, options.get("rng") if options else None
                )
            finally:
                extras = host.extras(request.op)
            for spectator in self._spectators:
                spectator.tell(request.op, request.args, value)
            if request.op in _STEPS:
                steps = self.steps
                steps.counts[took_ns.bit_length()] += 1
                steps.total_ns += took_ns
            timing = [begin_ns - arrived_ns, took_ns]
            return self._encode(Result(request.id, value, timing, extras), request.op)
        except BaseException as error:  # an environment may well call sys.exit()
            trace = traceback.format_exc() if self._debug else None
            wire = error_to_wire(limit_reached(error) or error, traceback=trace)
            self._figures.error(wire["code"])
            if trace is not None and "type" in wire.get("data", ()):
                wire["data"]["traceback"] = trace
            try:
                return self._encode(Failure(request.id, wire, extras), request.op)
            except errors.OpenEnvGymError:  # facts of an exception that cannot be carried
                return self._coder.failure(Failure(request.id, {**wire, "data": {}}))

    def _encode(self, reply: Result | Failure, op: str) -> list[Any]:
        try:
            if isinstance(reply, Result):
                parts = self._coder.result(reply, op)
            else:
                parts = self._coder.failure(reply)
        except errors.EncodeError as error:
            raise TypeError(
                f"The environment returned something that cannot be sent: {error}"
            ) from error
        size_bytes = packet_size(parts) if self._coder.resumable else 0
        if size_bytes > self._max_reply_bytes:
            raise errors.FrameTooLargeError(
                f"The reply has {size_bytes} bytes, the client takes {self._max_reply_bytes}.",
                data={"size_bytes": size_bytes, "max_bytes": self._max_reply_bytes},
            )
        return parts


def _check_deadline(options: dict[str, Any], waited_ns: int) -> None:
    deadline_s = options.get("deadline_s")
    if deadline_s is None:
        return
    if type(deadline_s) not in (int, float):
        raise errors.ProtocolError(
            f"Expected a number of seconds, got {deadline_s!r:.40}.", field="deadline_s"
        )
    if waited_ns > deadline_s * 1e9:
        raise errors.DeadlineExceededError(
            f"The request waited {waited_ns / 1e9:.3f} s, its deadline was {deadline_s} s; "
            "it was not run."
        )
