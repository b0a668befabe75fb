"""WebSocket frames of a connection that is open, without any input or output (RFC 6455).

The HTTP handshake before is the `websockets` library's work. From there on every message of this
protocol is one binary frame, and what `websockets` does for each of them (copying, queues,
extensions) costs more than a step of a small environment; so frames are written and read here.

A reader hands out the place where the next bytes of the socket go::

    reader = MessageReader(max_message_bytes=64 * 2**20, peer_masks=True)
    while True:
        reader.received(sock.recv_into(reader.buffer()))
        while (message := reader.next()) is not None:
            ...

so that a large payload lands where it stays.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, TypeAlias

import numpy as np

from openenv_gym.errors import FrameTooLargeError, ProtocolError


try:
    from websockets.speedups import apply_mask
except ImportError:  # no C compiler when websockets was installed
    from websockets.utils import apply_mask


__all__ = [
    "CloseCode",
    "Message",
    "MessageReader",
    "Opcode",
    "decode_close",
    "encode_close",
    "encode_frame",
    "frame_header",
]

Buffer: TypeAlias = "bytes | memoryview"

# Bytes received at once while no large payload is expected. As many of a large message are copied
# once more than the rest; fewer would mean more system calls for a burst of small messages.
_SCRATCH_BYTES = 4096

# Memory taken on the word of a frame's header alone. The rest follows as the payload arrives.
_TRUSTED_BYTES = 2**20

# RFC 6455, section 5.5.
_MAX_CONTROL_BYTES = 125


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


class Message(NamedTuple):
    """A message or a control frame that was received.

    Attributes:
        opcode: `TEXT`, `BINARY`, `CLOSE`, `PING` or `PONG`.
        data: The payload, unmasked and writable; nobody else holds this memory.
    """

    opcode: Opcode
    data: memoryview


_OPCODES = {int(opcode): opcode for opcode in Opcode}
_FIRST_CONTROL_OPCODE = 8

# First byte of an unfragmented binary frame: what nearly all frames begin with.
_BINARY_FRAME = 0x82
_BINARY = Opcode.BINARY  # a global is found faster than a member of an enumeration


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
            An unmasked payload is not copied.

    Returns:
        Buffers to be sent one after the other. Unmasked, they are views of the memory in `parts`.
    """
    if not masked:
        size_bytes = len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        return [frame_header(opcode, size_bytes), *parts]
    payload = parts[0] if len(parts) == 1 else b"".join(parts)
    mask = os.urandom(4)
    header, masked_payload = (
        frame_header(opcode, len(payload), mask=mask),
        apply_mask(payload, mask),
    )
    if len(masked_payload) > _SCRATCH_BYTES:
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
    limit = _MAX_CONTROL_BYTES - 2
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


class MessageReader:
    """Turns received bytes into messages.

    Args:
        max_message_bytes: Largest message taken, in bytes, all its fragments together.
        peer_masks: The peer is a client, whose frames are masked; a server's are not.

    Attributes:
        eof: The peer sends nothing more.
    """

    def __init__(self, *, max_message_bytes: int, peer_masks: bool) -> None:
        self.eof = False
        self.max_message_bytes = max_message_bytes
        self._peer_masks = peer_masks
        self._trusted_bytes = _TRUSTED_BYTES
        self._error: ProtocolError | None = None

        # Bytes that are not parsed yet: _scratch[_start:_end].
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._scratch_view = memoryview(self._scratch)
        self._start = 0
        self._end = 0

        # The payload of a frame that does not fit in there; meanwhile nothing else is. _arrived of
        # _size bytes are in _payload, which may have room for fewer.
        self._payload: memoryview | None = None
        self._size = 0
        self._arrived = 0
        self._first = 0  # first byte of the frame
        self._mask = b""

        # Fragments so far of a message that is not complete, joined (so that a flood of tiny ones
        # takes no more memory than their bytes), and its opcode.
        self._fragments = bytearray()
        self._fragments_opcode: Opcode | None = None

    @property
    def mid_frame(self) -> bool:
        """Whether a part of a message is held, once `next` has returned None."""
        return (
            self._payload is not None
            or self._start < self._end
            or self._fragments_opcode is not None
        )

    def attach(self, leftover: bytes | bytearray | memoryview) -> None:
        """Take bytes that whoever read the HTTP handshake received beyond its end.

        Args:
            leftover: The bytes that came before all that is received from now on.
        """
        size = len(leftover)
        if size >= len(self._scratch) - self._end:
            self._scratch = self._scratch[: self._end] + bytes(size + _SCRATCH_BYTES)
            self._scratch_view = memoryview(self._scratch)
        self._scratch_view[self._end : self._end + size] = leftover
        self._end += size

    def buffer(self) -> memoryview:
        """Return where the next received bytes go: at least one byte, good until `received`.

        To be called when `next` has returned None.
        """
        if self._payload is not None:
            return self._payload[self._arrived :]
        return self._scratch_view[self._end :]

    def received(self, n: int) -> None:
        """Take note of bytes that were put into `buffer`.

        Args:
            n: How many; 0 means that the peer sends nothing more.
        """
        if n == 0:
            self.eof = True
        elif self._payload is not None:
            self._arrived += n
            if len(self._payload) == self._arrived < self._size:
                payload = np.empty(min(2 * self._arrived, self._size), np.uint8).data
                payload[: self._arrived] = self._payload
                self._payload = payload
        elif self._error is None:
            self._end += n

    def next(self) -> Message | None:
        """Return the next complete message, or None where more bytes are needed for one.

        Raises:
            FrameTooLargeError: A message is larger than the reader takes; known from a frame's
                header, before its payload is received. `data` holds `size_bytes`, so far as it is
                known, and `max_bytes`.
            ProtocolError: The bytes are no WebSocket frames of this kind of peer.

                After either error nothing can be read any more: it is raised each time.
        """
        if self._error is not None:
            raise self._error.with_traceback(None)
        try:
            while True:
                if self._payload is not None:
                    if self._arrived < self._size:
                        return None
                    data, self._payload = self._payload, None
                    first = self._first
                    if self._mask:
                        _mask_in_place(data, self._mask)
                    self._trusted_bytes = max(self._trusted_bytes, self._size)
                else:
                    start, end, scratch = self._start, self._end, self._scratch
                    header_end = start + 2
                    if end < header_end:
                        self._make_room()
                        return None
                    first, second = scratch[start], scratch[start + 1]
                    size = second & 0x7F
                    if size >= 126:
                        width = 2 if size == 126 else 8
                        header_end += width
                        if end < header_end:
                            self._make_room()
                            return None
                        size = int.from_bytes(scratch[start + 2 : start + 2 + width], "big")
                        if size < (126 if width == 2 else 2**16):
                            self._check_header(first, second, size)
                    if (
                        first != _BINARY_FRAME
                        or (second >= 0x80) is not self._peer_masks
                        or size > self.max_message_bytes
                        or self._fragments_opcode is not None
                    ):
                        self._check_header(first, second, size)
                    mask = b""
                    if self._peer_masks:
                        header_end += 4
                        mask = bytes(scratch[header_end - 4 : header_end])
                    frame_end = header_end + size
                    if frame_end > end:
                        if frame_end - start > len(scratch) and header_end <= end:
                            self._first, self._mask = first, mask
                            self._receive_in_place(header_end, size)
                            continue
                        self._make_room()
                        return None
                    self._start = frame_end
                    if mask:
                        content = self._scratch_view[header_end:frame_end]
                        data = memoryview(bytearray(apply_mask(content, mask)))
                    else:
                        data = memoryview(scratch[header_end:frame_end])
                if first == _BINARY_FRAME:
                    return Message(_BINARY, data)
                message = self._complete(first, data)
                if message is not None:
                    return message
        except ProtocolError as error:
            self._error = error
            self._payload = None
            self._start = self._end = 0
            raise

    def _make_room(self) -> None:
        """Move the bytes of an incomplete frame to the front."""
        size = self._end - self._start
        if self._start:
            self._scratch_view[:size] = self._scratch_view[self._start : self._end]
            self._start, self._end = 0, size

    def _receive_in_place(self, start: int, size: int) -> None:
        """Move what is there of a payload to memory of its own, where the rest will be received.

        A header alone makes us take 1 MiB at most, or as much as the peer has really sent once.
        """
        arrived = self._end - start
        payload = np.empty(min(size, self._trusted_bytes), np.uint8).data
        payload[:arrived] = self._scratch_view[start : self._end]
        self._payload, self._size, self._arrived = payload, size, arrived
        self._start = self._end = 0

    def _check_header(self, first: int, second: int, size: int) -> None:
        """Raise where a frame with this header may not be sent, or not now."""
        opcode = first & 0x0F
        if first & 0x70:
            raise ProtocolError(
                "A WebSocket frame has reserved bits set, but no extension is used."
            )
        if opcode not in _OPCODES:
            raise ProtocolError(f"A WebSocket frame has the unknown opcode {opcode}.")
        if (second >= 0x80) is not self._peer_masks:
            raise ProtocolError(
                "A client sent a WebSocket frame that is not masked."
                if self._peer_masks
                else "A server sent a WebSocket frame that is masked."
            )
        short_size = second & 0x7F
        if size >= 2**63 or size < {126: 126, 127: 2**16}.get(short_size, 0):
            raise ProtocolError("A WebSocket frame's size is not written as it must be.")
        if opcode >= _FIRST_CONTROL_OPCODE:
            if first < 0x80 or size > _MAX_CONTROL_BYTES:
                raise ProtocolError("A WebSocket control frame is fragmented or too long.")
            return
        if (opcode == 0) is (self._fragments_opcode is None):
            raise ProtocolError(
                "A WebSocket frame continues a message, but none was begun."
                if opcode == 0
                else "A WebSocket message begins before the last one is complete."
            )
        total = len(self._fragments) + size
        if total > self.max_message_bytes:
            raise FrameTooLargeError(
                f"A message of at least {total} bytes exceeds the limit of "
                f"{self.max_message_bytes} bytes.",
                data={"size_bytes": total, "max_bytes": self.max_message_bytes},
            )

    def _complete(self, first: int, data: memoryview) -> Message | None:
        """Return the message that a frame completes, if it does."""
        opcode, is_last = _OPCODES[first & 0x0F], first >= 0x80
        if is_last and opcode:
            return Message(opcode, data)
        self._fragments += data
        if opcode:
            self._fragments_opcode = opcode
        if not is_last or self._fragments_opcode is None:
            return None
        message = Message(self._fragments_opcode, memoryview(self._fragments))
        self._fragments, self._fragments_opcode = bytearray(), None
        return message


def _mask_in_place(data: memoryview, mask: bytes) -> None:
    """Mask or unmask a large payload without a copy of it."""
    array = np.frombuffer(data, np.uint8)
    whole = len(array) & ~3
    words = array[:whole].view(np.uint32)
    words ^= np.frombuffer(mask, np.uint32)
    array[whole:] ^= np.frombuffer(mask, np.uint8, len(array) - whole)
