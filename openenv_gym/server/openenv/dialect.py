"""OpenEnv's JSON on a WebSocket: a session of its own for each connection."""

from __future__ import annotations

from typing import Any

from openenv_gym import errors
from openenv_gym.protocol.frames import CloseCode, Message, Opcode
from openenv_gym.protocol.messages import Failure, Result, error_from_wire
from openenv_gym.protocol.openenv_json import (
    ErrorCode,
    RequestType,
    encode_error,
    encode_reply,
    read_request,
)
from openenv_gym.server.dialects import TextDialect


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


class JsonDialect(TextDialect):
    """OpenEnv's protocol (docs/openenv.md). See `Dialect`."""

    coder = _JsonCoder()

    def read(self, message: Message) -> tuple[str, list[Any]]:
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

    def refusal(self, error: BaseException) -> tuple[list[Any], CloseCode]:
        """See `Dialect`."""
        if isinstance(error, errors.FrameTooLargeError):
            return [encode_error(error).encode()], CloseCode.MESSAGE_TOO_BIG
        if isinstance(error, errors.DecodeError):
            return [encode_error(error).encode()], CloseCode.INVALID_DATA
        return [encode_error(error, unmade=self.unmade(error)).encode()], CloseCode.NORMAL


def _text_of(message: Message) -> str:
    try:
        return bytes(message.data).decode()
    except UnicodeDecodeError as error:
        raise errors.DecodeError(
            f"Expected UTF-8: {error}.", data={"openenv_code": ErrorCode.INVALID_JSON.value}
        ) from None
