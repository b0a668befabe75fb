"""Sessions for callers without a connection of their own: HTTP requests."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from typing import Any

from openenv_gym import errors
from openenv_gym.protocol.messages import Failure, Request, Result, error_from_wire
from openenv_gym.server.peers import who_asks
from openenv_gym.server.session import Session
from openenv_gym.server.sessions import Sessions


__all__ = ["DirectCaller"]

_MAX_CALLS = 16  # each that waits holds a thread, of which there are few for all sessions
_MAX_S = 1e6  # Python cannot wait for as long as a client may say


class _Values:
    """Replies that stay in this process: nothing is written."""

    resumable = False

    def result(self, reply: Result, op: str) -> list[Any]:
        """See `ReplyCoder`."""
        return [reply]

    def failure(self, reply: Failure) -> list[Any]:
        """See `ReplyCoder`."""
        return [reply]


class DirectCaller:
    """A session that is used by calls; any thread that may wait can make them.

    Args:
        sessions: Where it is opened.
        options: What the environment is made with.
        timeout_s: Limit of opening it.

    Attributes:
        peer: Whose HTTP request it is for.
        arrived_s: When it was made, on the clock of `time.monotonic`.

    Raises:
        CapacityError: The server is full.
        DeadlineExceededError: It took too long.
        OpenEnvGymError: The environment cannot be made in this way.
        Exception: Whatever making it raises.
    """

    coder = _Values()
    congested = False
    shares = False

    def __init__(self, sessions: Sessions, options: dict[str, Any], *, timeout_s: float) -> None:
        self.peer = who_asks()
        self.arrived_s = time.monotonic()
        self._replies: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._room = threading.BoundedSemaphore(_MAX_CALLS)
        self._opening = threading.Event()
        self._session: Session | None = None
        self._refusal: BaseException | None = None
        self._gone = False
        self._count = 0
        work = sessions.begin(self, options)
        if work is not None:
            work()
        if not self._opening.wait(timeout_s):
            self._gone = True
        if self._refusal is not None:
            raise self._refusal
        if self._session is None:
            raise errors.DeadlineExceededError(f"No environment was made within {timeout_s:g} s.")

    def call(self, op: str, args: list[Any], *, timeout_s: float) -> Any:
        """Run an operation of the session and return its value.

        Args:
            op: Name of the operation (docs/protocol.md, section 4.2).
            args: Its arguments.
            timeout_s: Limit of the wait, also for calls of other threads that come before.

        Raises:
            DeadlineExceededError: It is not over; the session goes on.
            ProtocolError: Too many threads wait already; it was not begun.
            SessionClosedError: The session has ended.
            OpenEnvGymError: What the operation raised.
        """
        timeout_s = min(timeout_s, _MAX_S)
        if not self._room.acquire(blocking=False):
            raise errors.ProtocolError(
                f"More than {_MAX_CALLS} calls of this session are under way.",
                hint="Wait for their answers before making more.",
            )
        try:
            return self._call(op, args, timeout_s)
        finally:
            self._room.release()

    def close(self) -> None:
        """End the session, after the call that runs."""
        session, self._session = self._session, None
        if session is not None:
            session.end()

    @property
    def name(self) -> str:
        """Public name of the session, fit for logs; empty where it has ended."""
        session = self._session
        return "" if session is None else session.name

    @property
    def ended(self) -> bool:
        """The session has ended."""
        return self._session is None

    def _call(self, op: str, args: list[Any], timeout_s: float) -> Any:
        end_s = time.monotonic() + timeout_s
        if not self._lock.acquire(timeout=timeout_s):
            raise self._too_late(op, timeout_s)
        try:
            if self._session is None:
                raise errors.SessionClosedError(f"Cannot {op}: the session has ended.")
            self._count += 1
            request = Request(self._count, self._count - 1, op, args, {})
            work = self._session.submit(request, self)
            if work is not None:
                work()
            return self._wait(request, end_s, timeout_s)
        finally:
            self._lock.release()

    def _wait(self, request: Request, end_s: float, timeout_s: float) -> Any:
        while True:
            try:
                reply = self._replies.get(timeout=max(end_s - time.monotonic(), 0.0))
            except queue.Empty:
                raise self._too_late(request.op, timeout_s) from None
            if reply is None:
                raise errors.SessionClosedError(f"The session ended during {request.op}.")
            if reply.id != request.id:
                continue  # of a call that nobody waited for any more
            if isinstance(reply, Failure):
                raise error_from_wire(reply.error)
            return reply.value

    def _too_late(self, op: str, timeout_s: float) -> errors.DeadlineExceededError:
        return errors.DeadlineExceededError(
            f"{op} took more than {timeout_s:g} s.", data={"op": op, "timeout_s": timeout_s}
        )

    # -- what a session and those who open it call --------------------------------------------

    def opened(self, session: Session) -> bool:
        """See `Entrant`."""
        if self._gone:
            return False
        self._session = session
        return True

    def attached(self) -> None:
        """See `Entrant`."""
        self._opening.set()

    def refuse(self, error: BaseException) -> None:
        """See `Entrant`."""
        self._refusal = error
        self._opening.set()

    def send_packet(self, parts: Sequence[Any]) -> None:
        """See `Outlet`."""
        self._replies.put(parts[0])

    def finish(self) -> None:
        """See `Outlet`."""
        self._session = None
        self._replies.put(None)

    def fence(self) -> None:
        """See `Outlet`."""
        self.finish()
