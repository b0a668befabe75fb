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

from openenv_gym.errors import FrameTooLargeError, OpenEnvGymError, ProtocolError


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

# Bytes received at once while no large payload is expected. A large message's first bytes, at most
# this many, are copied once more; a larger size would copy more, a smaller one would need more
# system calls for a burst of small messages.
_SCRATCH_BYTES = 4096

# Memory taken on the word of a frame header alone, before the payload really arrives.
_TRUSTED_BYTES = 2**20

# RFC 6455, section 5.5: all control frames have at most 125 bytes.
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
        masked: The frame is a client's: its payload is masked (RFC 6455, section 5.3). That needs
            one copy of the payload; an unmasked one is not copied.

    Returns:
        Buffers to be sent one after the other. Unmasked, they are views of the memory in `parts`.
    """
    if not masked:
        size_bytes = len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        return [frame_header(opcode, size_bytes), *parts]
    payload = parts[0] if len(parts) == 1 else b"".join(parts)
    mask = os.urandom(4)
    return [frame_header(opcode, len(payload), mask=mask) + apply_mask(payload, mask)]


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
        self._max_message_bytes = max_message_bytes
        self._peer_masks = peer_masks
        self._error: OpenEnvGymError | None = None

        # Received bytes that are not parsed yet: _scratch[_start:_end].
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._scratch_view = memoryview(self._scratch)
        self._start = 0
        self._end = 0

        # A payload that was not complete in the scratch buffer, received in place:
        # _payload[:_filled] of _payload_size bytes have arrived. While it is set, the scratch
        # buffer is empty.
        self._payload: memoryview | None = None
        self._payload_size = 0
        self._filled = 0
        self._frame: tuple[bool, int, bytes] = (True, 0, b"")  # fin, opcode, mask

        # Earlier fragments of the message under way, and its opcode.
        self._fragments: list[memoryview] = []
        self._fragments_bytes = 0
        self._message_opcode: Opcode | None = None

    @property
    def mid_frame(self) -> bool:
        """Bytes of an unfinished frame, or fragments of an unfinished message, are held."""
        return (
            self._payload is not None or self._start < self._end or self._message_opcode is not None
        )

    def attach(self, leftover: Buffer | bytearray) -> None:
        """Take bytes that whoever read the HTTP handshake received beyond its end.

        Args:
            leftover: The bytes. To be called before anything else.
        """
        free = len(self._scratch) - self._end
        if len(leftover) > free:
            self._scratch = self._scratch[: self._end] + bytes(len(leftover) + _SCRATCH_BYTES)
            self._scratch_view = memoryview(self._scratch)
        self._scratch_view[self._end : self._end + len(leftover)] = leftover
        self._end += len(leftover)

    def buffer(self) -> memoryview:
        """Return where the next received bytes go, never empty.

        To be called after `next` returned None. A view is good until the next call of `received`.
        """
        if self._payload is not None:
            return self._payload[self._filled :]
        return self._scratch_view[self._end :]

    def received(self, n: int) -> None:
        """Take note that bytes were put into `buffer`.

        Args:
            n: How many bytes; 0 means that the peer sends nothing more.
        """
        if n == 0:
            self.eof = True
        elif self._payload is not None:
            self._filled += n
            if self._filled == len(self._payload) < self._payload_size:
                self._grow()
        else:
            self._end += n

    def next(self) -> Message | None:
        """Return the next complete message, or None where more bytes are needed first.

        Raises:
            FrameTooLargeError: A message is larger than the reader takes; found from the header
                of a frame, before the payload is received. `data` holds `size_bytes` and
                `max_bytes`.
            ProtocolError: The bytes are no WebSocket frames. Nothing can be read any more after
                either error: it is raised again.
        """
        if self._error is not None:
            raise self._error
        try:
            return self._next()
        except OpenEnvGymError as error:
            self._error = error
            raise

    def _next(self) -> Message | None:
        while True:
            if self._payload is not None:
                if self._filled < self._payload_size:
                    return None
                fin, opcode, mask = self._frame
                data, self._payload = self._payload, None
            else:
                start, scratch = self._start, self._scratch
                available = self._end - start
                if available < 2:
                    self._wait()
                    return None
                first, second = scratch[start], scratch[start + 1]
                fin, opcode = first >= 0x80, first & 0x0F
                size = second & 0x7F
                header_size = 2
                if size >= 126:
                    header_size = 4 if size == 126 else 10
                    if available < header_size:
                        self._check(first, second, 0)
                        self._wait()
                        return None
                    size = int.from_bytes(scratch[start + 2 : start + header_size], "big")
                self._check(first, second, size)
                mask = b""
                if self._peer_masks:
                    header_size += 4
                    if available < header_size:
                        self._wait()
                        return None
                    mask = bytes(scratch[start + header_size - 4 : start + header_size])
                start += header_size
                arrived = self._end - start
                if arrived < size:
                    if header_size + size > len(scratch):
                        self._frame = fin, opcode, mask
                        self._receive_in_place(start, size)
                        continue
                    self._wait()
                    return None
                self._start = start + size
                data = memoryview(scratch[start : start + size])
            if mask:
                # apply_mask returns bytes, which are not writable.
                data[:] = apply_mask(data, mask)
            message = self._frame_complete(fin, opcode, data)
            if message is not None:
                return message

    def _wait(self) -> None:
        """Make room behind the bytes of the unfinished frame."""
        start, end = self._start, self._end
        if start == end:
            self._start = self._end = 0
        elif start:
            self._scratch[: end - start] = self._scratch[start:end]
            self._start, self._end = 0, end - start

    def _check(self, first: int, second: int, size: int) -> None:
        """Raise where a frame header is not allowed here."""
        opcode = first & 0x0F
        if first & 0x70:
            raise ProtocolError("A WebSocket frame has reserved bits set; no extension is in use.")
        if opcode not in _OPCODES:
            raise ProtocolError(f"A WebSocket frame has the unknown opcode {opcode}.")
        if (second >= 0x80) is not self._peer_masks:
            raise ProtocolError(
                "A client sent a WebSocket frame that is not masked."
                if self._peer_masks
                else "A server sent a masked WebSocket frame."
            )
        if opcode >= Opcode.CLOSE:
            if first < 0x80 or second & 0x7F > _MAX_CONTROL_BYTES:
                raise ProtocolError("A WebSocket control frame is fragmented or too long.")
            return
        if (opcode == Opcode.CONTINUATION) is (self._message_opcode is None):
            raise ProtocolError(
                "A WebSocket frame continues a message, but none was begun."
                if self._message_opcode is None
                else "A WebSocket message begins before the last one is complete."
            )
        if size >= 2**63:
            raise ProtocolError(
                "A WebSocket frame claims a size with the most significant bit set."
            )
        if self._fragments_bytes + size > self._max_message_bytes:
            raise FrameTooLargeError(
                f"A message of {self._fragments_bytes + size} bytes or more exceeds the limit of "
                f"{self._max_message_bytes} bytes.",
                data={
                    "size_bytes": self._fragments_bytes + size,
                    "max_bytes": self._max_message_bytes,
                },
            )

    def _receive_in_place(self, start: int, size: int) -> None:
        """Move what has arrived of a large payload to memory of its own."""
        arrived = self._end - start
        payload = np.empty(min(size, _TRUSTED_BYTES), np.uint8).data
        payload[:arrived] = self._scratch_view[start : self._end]
        self._payload, self._payload_size, self._filled = payload, size, arrived
        self._start = self._end = 0

    def _grow(self) -> None:
        """Take more memory for a payload that filled what it was trusted with."""
        assert self._payload is not None
        payload = np.empty(min(2 * self._filled, self._payload_size), np.uint8).data
        payload[: self._filled] = self._payload
        self._payload = payload

    def _frame_complete(self, fin: bool, opcode: int, data: memoryview) -> Message | None:
        """Return the message that the frame completes, if any."""
        if opcode >= Opcode.CLOSE or (fin and opcode):
            return Message(_OPCODES[opcode], data)
        if opcode:
            self._message_opcode = _OPCODES[opcode]
        self._fragments.append(data)
        self._fragments_bytes += len(data)
        if not fin:
            return None
        assert self._message_opcode is not None
        message = Message(self._message_opcode, memoryview(bytearray().join(self._fragments)))
        self._fragments, self._fragments_bytes, self._message_opcode = [], 0, None
        return message
