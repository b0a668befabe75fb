"""``/mcp`` as a WebSocket: one JSON-RPC message in each text frame, one environment for each."""

from __future__ import annotations

from typing import Any

from openenv_gym import errors
from openenv_gym.protocol.frames import CloseCode, Message, Opcode
from openenv_gym.protocol.jsonrpc import RpcCode, rpc_error, rpc_failure, rpc_unmade
from openenv_gym.protocol.messages import Failure, Result, error_from_wire
from openenv_gym.protocol.openenv_json import dump_json, load_json
from openenv_gym.server.dialects import TextDialect


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


class McpDialect(TextDialect):
    """JSON-RPC. See `Dialect`."""

    coder = _RpcCoder()

    def read(self, message: Message) -> tuple[str, list[Any]]:
        """See `TextDialect`."""
        try:
            if message.opcode is not Opcode.TEXT:
                raise errors.DecodeError("Expected text messages, got a binary one.")
            return "mcp", [load_json(message.data)]
        except errors.DecodeError as error:
            return "refuse", [rpc_error(RpcCode.PARSE_ERROR, error.message)]

    def refusal(self, error: BaseException) -> tuple[list[Any], CloseCode]:
        """See `Dialect`."""
        if isinstance(error, errors.FrameTooLargeError):
            return [_write(error)], CloseCode.MESSAGE_TOO_BIG
        name = self.unmade(error)
        return [_write(error if name is None else rpc_unmade(name, error))], CloseCode.NORMAL


def _write(error: BaseException) -> bytes:
    return dump_json(rpc_failure(None, error)).encode()
