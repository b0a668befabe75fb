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
        if connection.opened(_Attached(caller, self._let_go)):  # type: ignore[arg-type]
            connection.attached()
        else:
            self._let_go()
        return None

    def leave(self, session: Any) -> None:
        """Let go of the session, which goes on."""
        self._let_go()

    def _let_go(self) -> None:
        """Do so once: by then another connection may have it."""
        try:
            self._holds.release()
        except RuntimeError:
            return
        self._endpoint.detach(self._session_id)


class _Attached:
    """What a connection needs of a session: requests of it run one after the other."""

    def __init__(self, caller: DirectCaller, let_go: Callable[[], None]) -> None:
        self._caller = caller
        self._let_go = let_go
        self._queue: deque[Request] = deque()
        self._busy = False
        self._lock = threading.Lock()

    def submit(self, request: Request, connection: Speaker) -> Work | None:
        """See `Session`."""
        with self._lock:
            self._queue.append(request)
            if self._busy:
                return None
            self._busy = True
        return lambda: self._run(connection)

    def go_on(self) -> Work | None:
        """See `Session`."""
        return None

    def _run(self, connection: Speaker) -> None:
        while True:
            with self._lock:
                if not self._queue:
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
