"""OpenEnv's JSON on a WebSocket: a session of its own for each connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openenv_gym import errors
from openenv_gym.protocol.frames import CloseCode, Message, Opcode
from openenv_gym.protocol.messages import Failure, Request, Result, error_from_wire
from openenv_gym.protocol.openenv_json import (
    ErrorCode,
    RequestType,
    encode_error,
    encode_reply,
    read_request,
)
from openenv_gym.server.dialects import Dialect, Speaker, Work


if TYPE_CHECKING:
    from openenv_gym.server.session import Session

__all__ = ["JsonDialect"]

# What they are in a session, whose operations of these names return JSON.
_OPERATIONS = {
    RequestType.RESET: "json_reset",
    RequestType.STEP: "json_step",
    RequestType.STATE: "json_state",
    RequestType.MCP: "json_mcp",
    RequestType.CLOSE: "close",
}
_KINDS = {op: kind for kind, op in _OPERATIONS.items()}


class _JsonCoder:
    """Text messages of OpenEnv; what the operations return is JSON already."""

    resumable = False

    def result(self, reply: Result, op: str) -> list[Any]:
        """See `ReplyCoder`; a close has no reply."""
        kind = _KINDS[op]
        return [] if kind is RequestType.CLOSE else [encode_reply(kind, reply.value).encode()]

    def failure(self, reply: Failure) -> list[Any]:
        """See `ReplyCoder`."""
        return [encode_error(error_from_wire(reply.error)).encode()]


class JsonDialect(Dialect):
    """OpenEnv's protocol (docs/openenv.md); see `Dialect`.

    Replies have no ids, so that each message, also one that cannot be read, is answered in its
    turn. The session ends with its connection.
    """

    opcode = Opcode.TEXT
    coder = _JsonCoder()
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
        op, args = self._read(message)
        self._count += 1
        # Who sends a request needs no earlier reply again.
        return session.submit(Request(self._count, self._count - 1, op, args, {}), self.connection)

    def _read(self, message: Message) -> tuple[str, list[Any]]:
        """Return an operation for a message; one for what cannot be read, too.

        Raises:
            DecodeError: A text message is not UTF-8, which ends a WebSocket (RFC 6455, 8.1).
        """
        try:
            if message.opcode is not Opcode.TEXT:
                raise errors.ProtocolError(
                    "Expected text messages, got a binary one.",
                    data={"openenv_code": ErrorCode.INVALID_JSON.value},
                )
            request = read_request(_text_of(message))
        except errors.DecodeError:
            raise
        except errors.ProtocolError as error:
            return "refuse", [error]
        takes_data = request.type not in (RequestType.STATE, RequestType.CLOSE)
        return _OPERATIONS[request.type], [request.data] if takes_data else []

    def leave(self, session: Session) -> None:
        """End it: nobody can come back to it."""
        session.detach(self.connection)  # which has nothing more to say
        session.end()

    def refusal(self, error: BaseException) -> tuple[list[Any], CloseCode]:
        """See `Dialect`."""
        if isinstance(error, errors.FrameTooLargeError):
            return [encode_error(error).encode()], CloseCode.MESSAGE_TOO_BIG
        if isinstance(error, errors.DecodeError):
            return [encode_error(error).encode()], CloseCode.INVALID_DATA
        code = None
        if self.connection.session is None and not isinstance(error, errors.SessionError):
            code = ErrorCode.FACTORY_ERROR
        return [encode_error(error, code=code).encode()], CloseCode.NORMAL


def _text_of(message: Message) -> str:
    try:
        return bytes(message.data).decode()
    except UnicodeDecodeError as error:
        raise errors.DecodeError(
            f"Expected UTF-8: {error}.", data={"openenv_code": ErrorCode.INVALID_JSON.value}
        ) from None
