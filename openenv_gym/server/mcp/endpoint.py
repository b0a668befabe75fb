"""``/mcp`` over HTTP: MCP's streamable transport, and OpenEnv's JSON-RPC on the same path.

A session is an environment of its own. A client of MCP gets one by `initialize` and names it in the
header ``Mcp-Session-Id``; one of OpenEnv by ``openenv/session/create``, and names it in the
parameters. Answers are JSON, which MCP's transport allows: no tool sends anything ahead of its
result, so that there is nothing to stream.
"""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from openenv_gym import errors
from openenv_gym.protocol.jsonrpc import (
    RpcCode,
    RpcRequest,
    read_rpc,
    rpc_error,
    rpc_failure,
    rpc_result,
    rpc_unmade,
)
from openenv_gym.server.direct import DirectCaller
from openenv_gym.server.http_messages import HttpRequest, HttpResponse, Need, Note, Route
from openenv_gym.server.mcp.rpc import VERSIONS
from openenv_gym.server.sessions import Sessions


__all__ = ["MCP_PATH", "McpEndpoint"]

MCP_PATH = "/mcp"

_NOTE = Note(
    "JSON-RPC: MCP's streamable HTTP, and OpenEnv's sessions",
    "MCP",
    {"type": "object"},
    answer={"type": "object"},
)
_SESSION_HEADER = "Mcp-Session-Id"
_VERSION_HEADER = "mcp-protocol-version"
_OPEN_S = 120.0
_CALL_S = 3600.0  # tools have limits of their own; this one is for those that have none
_OF_TOOLS = frozenset({"tools/list", "tools/call"})


class McpEndpoint:
    """Answers requests at ``/mcp``, each in a thread that may wait.

    Args:
        sessions: Where sessions are opened.
        name: What is served.
    """

    def __init__(self, sessions: Sessions, name: str) -> None:
        self._sessions = sessions
        self._name = name
        self._lock = threading.Lock()
        self._callers: dict[str, DirectCaller] = {}
        self._attached: dict[str, bool] = {}  # by id, whether it ends with its connection

    def routes(self) -> list[Route]:
        """Return what is served."""
        return [
            Route("POST", MCP_PATH, self.post, need=Need.SESSION, note=_NOTE),
            Route("GET", MCP_PATH, _no_stream, quick=True),
            Route("DELETE", MCP_PATH, self.delete, need=Need.SESSION),
        ]

    def find(self, session_id: Any) -> DirectCaller | None:
        """Return the session of an id, if there is one that has not ended."""
        with self._lock:
            caller = self._callers.get(session_id) if isinstance(session_id, str) else None
        return None if caller is None or caller.ended else caller

    def attach(self, session_id: str) -> DirectCaller:
        """Return a session for a WebSocket; one at a time may have it, until `detach`.

        Raises:
            SessionLostError: There is no such session.
            SessionError: Another WebSocket has it.
        """
        caller = self.find(session_id)
        if caller is None:
            raise errors.SessionLostError(f"Unknown session_id: {session_id:.80}")
        with self._lock:
            if session_id in self._attached:
                raise errors.SessionError(
                    f"The session {session_id:.80} has a WebSocket already.", field="session_id"
                )
            self._attached[session_id] = False
        return caller

    def detach(self, session_id: str) -> None:
        """Take a session back from a WebSocket that has closed."""
        with self._lock:
            ends = self._attached.pop(session_id, False)
        if ends:
            self._end(session_id)

    # -- requests ---------------------------------------------------------------------------

    def post(self, request: HttpRequest) -> HttpResponse:
        """Answer a message.

        The status is 200 also for errors of JSON-RPC, as OpenEnv has it; it is another one where
        MCP's transport asks for that.
        """
        try:
            message = request.json()
        except errors.DecodeError as error:
            return _json(rpc_failure(None, rpc_error(RpcCode.PARSE_ERROR, error.message)))
        try:
            rpc = read_rpc(message)
        except errors.ProtocolError as error:
            return _json(rpc_failure(None, error))
        version = request.headers.get(_VERSION_HEADER)
        if version is not None and version not in VERSIONS and rpc.method != "initialize":
            return _refuse(
                HTTPStatus.BAD_REQUEST,
                rpc,
                f"MCP-Protocol-Version is {version!r:.40}, expected one of {', '.join(VERSIONS)}.",
            )
        session_id = request.headers.get(_SESSION_HEADER.lower())
        if session_id is not None:
            caller = self.find(session_id)
            if caller is None:
                return _refuse(HTTPStatus.NOT_FOUND, rpc, f"Unknown session: {session_id:.80}")
            if not rpc.answered:
                return HttpResponse(HTTPStatus.ACCEPTED)
            return _json(self._answer(rpc, lambda: _call(caller, message)))
        if not rpc.answered:
            return HttpResponse(HTTPStatus.ACCEPTED)
        if rpc.method == "initialize":
            return self._initialize(rpc, message)
        return _json(self._answer(rpc, lambda: self._without_header(rpc, message)))

    def delete(self, request: HttpRequest) -> HttpResponse:
        """End the session that the header names."""
        session_id = request.headers.get(_SESSION_HEADER.lower())
        if session_id is None:
            return HttpResponse.of_text(
                HTTPStatus.BAD_REQUEST, f"The header {_SESSION_HEADER} is missing."
            )
        if not self._end(session_id):
            return HttpResponse.of_text(HTTPStatus.NOT_FOUND, "Unknown session.")
        return HttpResponse(HTTPStatus.NO_CONTENT)

    @staticmethod
    def _answer(rpc: RpcRequest, work: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = work()
        except Exception as error:
            return rpc_failure(rpc.id, error)
        return answer

    # -- MCP --------------------------------------------------------------------------------

    def _initialize(self, rpc: RpcRequest, message: Any) -> HttpResponse:
        try:
            session_id, caller = self._begin()
        except Exception as error:
            return _json(rpc_failure(rpc.id, error))
        answer = self._answer(rpc, lambda: _call(caller, message))
        if "error" in answer:
            self._end(session_id)
            return _json(answer)
        return replace(_json(answer), headers={_SESSION_HEADER: session_id})

    # -- OpenEnv ----------------------------------------------------------------------------

    def _without_header(self, rpc: RpcRequest, message: Any) -> dict[str, Any]:
        named = rpc.params.get("session_id")
        if rpc.method == "openenv/session/create":
            return rpc_result(rpc.id, {"session_id": self._begin()[0]})
        if rpc.method == "openenv/session/close":
            if not named:
                raise rpc_error(
                    RpcCode.INVALID_PARAMS,
                    "Invalid params - 'session_id' is required",
                    field="session_id",
                )
            if self._ends_later(named):
                closing = {"session_id": named, "closed": False, "closing": True}
                return rpc_result(rpc.id, closing)
            if not self._end(named):
                raise _unknown(named)
            return rpc_result(rpc.id, {"session_id": named, "closed": True})
        if named:
            caller = self.find(named)
            if caller is None:
                raise _unknown(named)
            return _call(caller, message)
        if rpc.method == "ping":
            return rpc_result(rpc.id, {})
        if rpc.method not in _OF_TOOLS:
            raise rpc_error(
                RpcCode.METHOD_NOT_FOUND, f"Method not found: {rpc.method:.80}", field="method"
            )
        # Without a session, an environment for this one call, as in OpenEnv; it takes a place.
        caller = self._open()
        try:
            return _call(caller, message)
        finally:
            caller.close()

    # -- sessions ---------------------------------------------------------------------------

    def _open(self) -> DirectCaller:
        try:
            return DirectCaller(self._sessions, {}, timeout_s=_OPEN_S)
        except errors.SessionError:
            raise  # there is no place
        except Exception as error:
            raise rpc_unmade(self._name, error) from error

    def _begin(self) -> tuple[str, DirectCaller]:
        caller = self._open()
        # Not the session's name, which stands in logs; the prefix tells which worker has it.
        session_id = f"{self._sessions.name_prefix}{uuid.uuid4()}"
        with self._lock:
            gone = [each for each, known in self._callers.items() if known.ended]
            for each in gone:
                del self._callers[each]
            self._callers[session_id] = caller
        return session_id, caller

    def _ends_later(self, session_id: Any) -> bool:
        """Have a session end with its WebSocket; False where it has none."""
        with self._lock:
            if not isinstance(session_id, str) or session_id not in self._attached:
                return False
            self._attached[session_id] = True
            return True

    def _end(self, session_id: Any) -> bool:
        with self._lock:
            caller = self._callers.pop(session_id, None) if isinstance(session_id, str) else None
        if caller is None or caller.ended:
            return False
        caller.close()
        return True


def _call(caller: DirectCaller, message: Any) -> dict[str, Any]:
    answer: dict[str, Any] = caller.call("mcp", [message], timeout_s=_CALL_S)
    return answer


def _unknown(session_id: Any) -> errors.ProtocolError:
    return rpc_error(
        RpcCode.INVALID_PARAMS, f"Unknown session_id: {session_id!s:.80}", field="session_id"
    )


def _json(answer: dict[str, Any]) -> HttpResponse:
    return HttpResponse.of_json(answer)


def _refuse(status: HTTPStatus, rpc: RpcRequest, text: str) -> HttpResponse:
    error = rpc_error(RpcCode.INVALID_REQUEST, text)
    return HttpResponse.of_json(rpc_failure(rpc.id, error), status)


def _no_stream(request: HttpRequest) -> HttpResponse:
    """Say that the server sends nothing on its own, as MCP's transport has it."""
    return HttpResponse(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "POST, DELETE"})
