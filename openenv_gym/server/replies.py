"""Writing the replies of a session: as packets; OpenEnv's JSON has a coder of its own."""

from __future__ import annotations

from typing import Any, Protocol

from openenv_gym.protocol.codec import encode_packet
from openenv_gym.protocol.messages import Failure, Result


__all__ = ["PACKETS", "ReplyCoder"]


class ReplyCoder(Protocol):
    """Writes replies; what it returns is the payload of one message, in parts.

    Attributes:
        resumable: Replies are kept until the client has them, and their size is limited.
    """

    resumable: bool

    def result(self, reply: Result, op: str) -> list[Any]:
        """Write what an operation returned; nothing where its reply is not sent.

        Raises:
            EncodeError: The value cannot be carried.
        """

    def failure(self, reply: Failure) -> list[Any]:
        """Write an error.

        Raises:
            EncodeError: Its data cannot be carried.
        """


# What the items of a reply are called in errors.
_NAMES = (None, None, "reply", None, None)
_REPLY_NAMES = {
    "reset": (None, None, ("observation", "info"), None, None),
    "step": (None, None, ("observation", "reward", "terminated", "truncated", "info"), None, None),
    "recv": (
        None,
        None,
        ("indices", "observation", "reward", "terminated", "truncated", "info"),
        None,
        None,
    ),
}


class _Packets:
    """Packets of docs/protocol.md."""

    resumable = True

    def result(self, reply: Result, op: str) -> list[Any]:
        """See `ReplyCoder`."""
        return encode_packet(reply.to_wire(), names=_REPLY_NAMES.get(op, _NAMES))

    def failure(self, reply: Failure) -> list[Any]:
        """See `ReplyCoder`."""
        return encode_packet(reply.to_wire(), names=_NAMES)


PACKETS: ReplyCoder = _Packets()
