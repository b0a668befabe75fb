"""One frame: its header, its mask, and what a close frame says (RFC 6455, sections 5 and 7)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import IntEnum
from typing import TypeAlias

import numpy as np

from openenv_gym.errors import ProtocolError


try:
    from websockets.speedups import apply_mask
except ImportError:  # no C compiler when websockets was installed
    from websockets.utils import apply_mask


__all__ = [
    "MAX_CONTROL_BYTES",
    "CloseCode",
    "Opcode",
    "apply_mask",
    "decode_close",
    "encode_close",
    "encode_frame",
    "frame_header",
    "mask_in_place",
]

Buffer: TypeAlias = "bytes | memoryview"

MAX_CONTROL_BYTES = 125
"""Largest payload of a control frame (section 5.5)."""

# A payload up to this size is joined with its header: one buffer is sent faster than two.
_JOINED_BYTES = 4096


class Opcode(IntEnum):
    """Kinds of frames (RFC 6455, section 5.2)."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class CloseCode(IntEnum):
    """Why a connection ends (RFC 6455, section 7.4.1, and IANA's registry for 1012)."""

    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    UNSUPPORTED_DATA = 1003
    INVALID_DATA = 1007
    POLICY_VIOLATION = 1008
    MESSAGE_TOO_BIG = 1009
    INTERNAL_ERROR = 1011
    SERVICE_RESTART = 1012


def frame_header(
    opcode: int, size_bytes: int, *, mask: bytes | None = None, fin: bool = True
) -> bytes:
    """Return the header of a frame (RFC 6455, section 5.2).

    Args:
        opcode: Kind of the frame.
        size_bytes: Size of its payload, in bytes.
        mask: The four bytes that the payload is masked with, or None for a frame of a server.
        fin: The frame is the last one of its message.

    Returns:
        2 to 14 bytes.
    """
    first = 0x80 | opcode if fin else int(opcode)
    masked = 0 if mask is None else 0x80
    if size_bytes < 126:
        header = bytes((first, masked | size_bytes))
    elif size_bytes < 2**16:
        header = bytes((first, masked | 126)) + size_bytes.to_bytes(2, "big")
    else:
        header = bytes((first, masked | 127)) + size_bytes.to_bytes(8, "big")
    return header if mask is None else header + mask


def encode_frame(opcode: int, parts: Sequence[Buffer], *, masked: bool) -> list[Buffer]:
    """Return the buffers of one frame, for `socket.sendmsg`.

    Args:
        opcode: Kind of the frame.
        parts: The payload in pieces, one-dimensional bytes each.
        masked: The frame is a client's: its payload is copied and masked (RFC 6455, section 5.3).
            A large unmasked payload is not copied.

    Returns:
        Buffers to be sent one after the other. Unmasked, large ones are views of the memory in
        `parts`.
    """
    if not masked:
        if len(parts) == 1:
            part = parts[0]
            size_bytes = len(part)
            header = frame_header(opcode, size_bytes)
            if size_bytes <= _JOINED_BYTES:
                return [header + part]
            return [header, part]
        return [frame_header(opcode, sum(map(len, parts))), *parts]
    payload = parts[0] if len(parts) == 1 else b"".join(parts)
    mask = os.urandom(4)
    header, masked_payload = (
        frame_header(opcode, len(payload), mask=mask),
        apply_mask(payload, mask),
    )
    if len(masked_payload) > _JOINED_BYTES:
        return [header, masked_payload]
    return [header + masked_payload]


def encode_close(code: int, reason: str = "") -> bytes:
    """Return the payload of a close frame (RFC 6455, section 5.5.1).

    Args:
        code: Why the connection ends.
        reason: Why, in words; what does not fit in 123 bytes of UTF-8 is cut off.

    Returns:
        At most 125 bytes.
    """
    text = reason.encode("utf-8", "replace")
    limit = MAX_CONTROL_BYTES - 2
    if len(text) > limit:
        text = text[:limit].decode("utf-8", "ignore").encode()
    return code.to_bytes(2, "big") + text


def decode_close(data: Buffer | bytearray) -> tuple[int, str]:
    """Return code and reason of a close frame (RFC 6455, sections 5.5.1, 7.1.5 and 7.4).

    Args:
        data: Payload of the frame.

    Returns:
        The code, 1005 ("no status received") where the frame is empty, and the reason.

    Raises:
        ProtocolError: The payload is not one that may be sent.
    """
    data = bytes(data)
    if not data:
        return 1005, ""
    code = int.from_bytes(data[:2], "big")
    if len(data) == 1 or not (1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999):
        raise ProtocolError(f"A close frame carries no valid code: {data[:2]!r}.")
    try:
        return code, data[2:].decode()
    except UnicodeDecodeError:
        raise ProtocolError("The reason in a close frame is not UTF-8.") from None


def mask_in_place(data: memoryview, mask: bytes) -> None:
    """Mask or unmask a large payload without a copy of it."""
    array = np.frombuffer(data, np.uint8)
    whole = len(array) & ~3
    words = array[:whole].view(np.uint32)
    words ^= np.frombuffer(mask, np.uint32)
    array[whole:] ^= np.frombuffer(mask, np.uint8, len(array) - whole)
