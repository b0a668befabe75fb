"""``/mcp`` as a WebSocket: one JSON-RPC message in each text frame, one environment for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openenv_gym import errors
from openenv_gym.protocol.frames import CloseCode, Message, Opcode
from openenv_gym.protocol.jsonrpc import RpcCode, rpc_error, rpc_failure
from openenv_gym.protocol.messages import Failure, Request, Result, error_from_wire
from openenv_gym.protocol.openenv_json import dump_json, load_json
from openenv_gym.server.dialects import Dialect, Speaker, Work


if TYPE_CHECKING:
    from openenv_gym.server.session import Session

__all__ = ["McpDialect"]


class _RpcCoder:
    """Writes answers; notifications have none."""

    resumable = False

    def result(self, reply: Result, op: str) -> list[Any]:
        """See `ReplyCoder`."""
        return [] if reply.value is None else [dump_json(reply.value).encode()]

    def failure(self, reply: Failure) -> list[Any]:
        """See `ReplyCoder`."""
        return [_write(error_from_wire(reply.error))]


class McpDialect(Dialect):
    """JSON-RPC, answered in order; the session ends with its connection. See `Dialect`."""

    opcode = Opcode.TEXT
    coder = _RpcCoder()
    listens_while_opening = False

    def __init__(self, connection: Speaker) -> None:
        super().__init__(connection)
        self._count = 0

    def begin(self) -> Work | None:
        """Open a session."""
        self.connection.opening()
        return self.connection.site.sessions.begin(self.connection, {})

    def take(self, message: Message) -> Work | None:
        """See `Dialect`."""
        session = self.connection.session
        if session is None:
            return None  # it has ended
        op, args = _read(message)
        self._count += 1
        # Who sends a request needs no earlier answer again.
        return session.submit(Request(self._count, self._count - 1, op, args, {}), self.connection)

    def leave(self, session: Session) -> None:
        """End it: nobody can come back to it."""
        session.detach(self.connection)  # which has nothing more to say
        session.end()

    def refusal(self, error: BaseException) -> tuple[list[Any], CloseCode]:
        """See `Dialect`."""
        code = CloseCode.NORMAL
        if isinstance(error, errors.FrameTooLargeError):
            code = CloseCode.MESSAGE_TOO_BIG
        return [_write(error)], code


def _read(message: Message) -> tuple[str, list[Any]]:
    try:
        if message.opcode is not Opcode.TEXT:
            raise errors.DecodeError("Expected text messages, got a binary one.")
        return "mcp", [load_json(message.data)]
    except errors.DecodeError as error:
        return "refuse", [rpc_error(RpcCode.PARSE_ERROR, error.message)]


def _write(error: BaseException) -> bytes:
    return dump_json(rpc_failure(None, error)).encode()
