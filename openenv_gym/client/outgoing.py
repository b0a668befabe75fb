"""Packets of one session on asyncio: requests on their way, and messages that came."""

from __future__ import annotations

import asyncio
from typing import Any

from openenv_gym import errors
from openenv_gym.protocol.codec import decode_packet, encode_packet
from openenv_gym.protocol.messages import Failure, Request, Result


__all__ = ["Outgoing", "decode", "encode"]


class Outgoing:
    """A request on its way: sent once as a rule, and again after a resume.

    Attributes:
        packet: What is sent.
        reply: The server's answer.

    Raises:
        FrameTooLargeError: The server does not take that much.
    """

    __slots__ = ("_request", "packet", "reply")

    reply: asyncio.Future[Result | Failure]

    def __init__(self, request: Request, max_bytes: int | None) -> None:
        self._request = request
        self.reply = asyncio.get_running_loop().create_future()
        self.packet = encode(request.to_wire())
        if max_bytes is not None and len(self.packet) > max_bytes:
            raise errors.FrameTooLargeError(
                f"The message has {len(self.packet)} bytes, the server takes {max_bytes}.",
                hint="Send less, or start the server with a higher --max-frame-bytes.",
                data={"size_bytes": len(self.packet), "max_bytes": max_bytes},
            )

    def withdraw(self) -> None:
        """From now on do nothing: nobody waits for the reply any more."""
        self.packet = encode(self._request.without_effect().to_wire())


def encode(message: list[Any]) -> bytes:
    """Return the packet of a message."""
    return b"".join(encode_packet(message))


def decode(message: str | bytes) -> list[Any]:
    """Return the message in a packet.

    Raises:
        DecodeError: It is none.
        ProtocolError: It is text.
    """
    if isinstance(message, str):
        raise errors.ProtocolError("Expected binary messages, got a text message.")
    # Arrays are views of the packet, and whoever gets them may write to them.
    return decode_packet(memoryview(bytearray(message)))
