"""``/ws?session_id=ID``: OpenEnv's JSON on the session that a client began at ``/mcp``.

OpenEnv's client of tools resets and steps here, and lists and calls tools over HTTP; both act on
the one environment.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from openenv_gym import errors
from openenv_gym.protocol.messages import Failure, Request, Result, error_to_wire
from openenv_gym.server.dialects import Speaker, Work
from openenv_gym.server.openenv.dialect import JsonDialect


if TYPE_CHECKING:
    from openenv_gym.server.direct import DirectCaller
    from openenv_gym.server.mcp.endpoint import McpEndpoint

__all__ = ["AttachedDialect"]

_CALL_S = 3600.0


class AttachedDialect(JsonDialect):
    """OpenEnv's JSON on a session that outlives the connection. See `Dialect`.

    Args:
        connection: The connection.
        endpoint: Who holds the session.
        session_id: Which session.
    """

    def __init__(self, connection: Speaker, endpoint: McpEndpoint, session_id: str) -> None:
        super().__init__(connection)
        self._endpoint = endpoint
        self._session_id = session_id
        self._holds = threading.Lock()  # held while the session is ours to let go

    def begin(self) -> Work | None:
        """Take hold of the session; one connection at a time may."""
        connection = self.connection
        connection.opening()
        try:
            caller = self._endpoint.attach(self._session_id)
        except errors.SessionError as error:
            connection.refuse(error)
            return None
        self._holds.acquire()
        attached = _Attached(caller, connection, self._let_go)
        if connection.opened(attached):  # type: ignore[arg-type]
            connection.attached()
        else:
            self._let_go()
        return None

    def leave(self, session: Any) -> None:
        """Let go of the session, which goes on."""
        self._let_go()

    def part(self, session: Any) -> bool:
        """See `Dialect`."""
        return False

    def _let_go(self) -> None:
        """Do so once: by then another connection may have it."""
        try:
            self._holds.release()
        except RuntimeError:
            return
        self._endpoint.detach(self._session_id)


class _Attached:
    """What a connection needs of a session: requests of it run one after the other."""

    def __init__(
        self, caller: DirectCaller, connection: Speaker, let_go: Callable[[], None]
    ) -> None:
        self._caller = caller
        self._connection = connection
        self._let_go = let_go
        self._queue: deque[Request] = deque()
        self._busy = False
        self._lock = threading.Lock()
        self.name = caller.name  # for logs

    def submit(self, request: Request, connection: Speaker) -> Work | None:
        """See `Session`.

        Raises:
            ProtocolError: It is one too many.
        """
        with self._lock:
            most = connection.site.limits.max_pipelined
            if len(self._queue) >= most:
                raise errors.ProtocolError(
                    f"More than {most} requests are in flight.",
                    field="id",
                    hint="Wait for replies before sending more.",
                )
            self._queue.append(request)
        return self.go_on()

    def go_on(self) -> Work | None:
        """See `Session`."""
        with self._lock:
            if self._busy or not self._queue or self._connection.congested:
                return None
            self._busy = True
            return self._run

    def _run(self) -> None:
        connection = self._connection
        while True:
            with self._lock:
                if not self._queue or connection.congested:
                    self._busy = False
                    return
                request = self._queue.popleft()
            if request.op == "close":
                # The connection is the client's to close; the session ends by its own request.
                connection.finish()
                self._let_go()
                continue
            connection.send_packet(self._answer(request, connection))

    def _answer(self, request: Request, connection: Speaker) -> list[Any]:
        coder = connection.coder
        try:
            if request.op == "refuse":
                raise request.args[0]
            value = self._caller.call(request.op, request.args, timeout_s=_CALL_S)
            return coder.result(Result(request.id, value, [0, 0], {}), request.op)
        except Exception as error:
            return coder.failure(Failure(request.id, error_to_wire(error), {}))
