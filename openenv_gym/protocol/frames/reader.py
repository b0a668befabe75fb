"""Received bytes to messages, with a large payload received where it stays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from openenv_gym.errors import FrameTooLargeError, ProtocolError
from openenv_gym.protocol.frames.format import (
    MAX_CONTROL_BYTES,
    Opcode,
    apply_mask,
    mask_in_place,
)


__all__ = ["Message", "MessageReader"]

# Bytes received at once while no large payload is expected. As many of a large message are copied
# once more than the rest; fewer would mean more system calls for a burst of small messages.
_SCRATCH_BYTES = 4096

# Memory taken on the word of a frame's header alone. The rest follows as the payload arrives.
_TRUSTED_BYTES = 2**20

_OPCODES = {int(opcode): opcode for opcode in Opcode}
_FIRST_CONTROL_OPCODE = 8

# First byte of an unfragmented binary frame: what nearly all frames begin with.
_BINARY_FRAME = 0x82
_BINARY = Opcode.BINARY  # a global is found faster than a member of an enumeration


class Message(NamedTuple):
    """A message or a control frame that was received.

    Attributes:
        opcode: `TEXT`, `BINARY`, `CLOSE`, `PING` or `PONG`.
        data: The payload, unmasked and writable; nobody else holds this memory.
    """

    opcode: Opcode
    data: memoryview


_new_tuple = tuple.__new__  # for a message, half the cost of a call of the class


class MessageReader:
    """Turns received bytes into messages.

    Args:
        max_message_bytes: Largest message taken, in bytes, all its fragments together.
        peer_masks: The peer is a client, whose frames are masked; a server's are not.

    Attributes:
        eof: The peer sends nothing more.
        max_message_bytes: As above; may be changed.
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

        # A frame that does not fit in there; meanwhile nothing else is.
        self._large: _LargeFrame | None = None

        # Fragments so far of a message that is not complete, joined (so that a flood of tiny ones
        # takes no more memory than their bytes), and its opcode.
        self._fragments = bytearray()
        self._fragments_opcode: Opcode | None = None

    @property
    def mid_frame(self) -> bool:
        """Whether a part of a message is held, once `next` has returned None."""
        return (
            self._large is not None or self._start < self._end or self._fragments_opcode is not None
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
        if self._large is not None:
            return self._large.free()
        return self._scratch_view[self._end :]

    def received(self, n: int) -> None:
        """Take note of bytes that were put into `buffer`.

        Args:
            n: How many; 0 means that the peer sends nothing more.
        """
        if n == 0:
            self.eof = True
        elif self._large is not None:
            self._large.received(n)
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
            while (frame := self._next_frame()) is not None:
                first, data = frame
                if first == _BINARY_FRAME:
                    return _new_tuple(Message, (_BINARY, data))
                message = self._complete(first, data)
                if message is not None:
                    return message
        except ProtocolError as error:
            self._error = error
            self._large = None
            self._start = self._end = 0
            raise
        return None

    def _next_frame(self) -> tuple[int, memoryview] | None:
        """Return first byte and payload of the next frame, None where it is not complete."""
        large = self._large
        if large is not None:
            if large.arrived < large.size:
                return None
            self._large = None
            self._trusted_bytes = max(self._trusted_bytes, large.size)
            return large.first, large.payload()
        start, end, scratch = self._start, self._end, self._scratch
        begin = start + 2
        if end < begin:
            self._make_room()
            return None
        first, second = scratch[start], scratch[start + 1]
        size = second & 0x7F
        shortest = 0
        if size >= 126:
            width, shortest = (2, 126) if size == 126 else (8, 2**16)
            begin += width
            if end < begin:
                self._make_room()
                return None
            size = int.from_bytes(scratch[begin - width : begin], "big")
        if (
            first != _BINARY_FRAME
            or (second >= 0x80) is not self._peer_masks
            or not shortest <= size <= self.max_message_bytes
            or self._fragments_opcode is not None
        ):
            self._check_header(first, second, size, shortest)
        mask = b""
        if self._peer_masks:
            begin += 4
            mask = bytes(scratch[begin - 4 : begin])
        frame_end = begin + size
        if frame_end > end:
            if frame_end - start <= len(scratch) or begin > end:
                self._make_room()
                return None
            begun = self._scratch_view[begin:end]
            self._large = _LargeFrame(first, mask, size, begun, self._trusted_bytes)
            self._start = self._end = 0
            return None
        self._start = frame_end
        if mask:
            payload = self._scratch_view[begin:frame_end]
            return first, memoryview(bytearray(apply_mask(payload, mask)))
        return first, memoryview(scratch[begin:frame_end])

    def _make_room(self) -> None:
        """Move the bytes of an incomplete frame to the front."""
        size = self._end - self._start
        if self._start:
            self._scratch_view[:size] = self._scratch_view[self._start : self._end]
            self._start, self._end = 0, size

    def _check_header(self, first: int, second: int, size: int, shortest: int) -> None:
        """Raise where a frame with this header may not be sent, or not now.

        Args:
            first: Its first byte.
            second: Its second byte.
            size: Size of its payload, in bytes.
            shortest: Smallest payload whose size may be written in so many bytes.
        """
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
        if not shortest <= size < 2**63:
            raise ProtocolError("A WebSocket frame's size is not written as it must be.")
        if opcode >= _FIRST_CONTROL_OPCODE:
            if first < 0x80 or size > MAX_CONTROL_BYTES:
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


class _LargeFrame:
    """A frame whose payload is received where it stays.

    Args:
        first: First byte of the frame.
        mask: What the payload is masked with; empty for a server's.
        size: Size of the payload, in bytes.
        begun: What has arrived of the payload already.
        trusted_bytes: Memory that may be taken on the word of the header alone.

    Attributes:
        first: First byte of the frame.
        size: Size of the payload, in bytes.
        arrived: So many of them are there.
    """

    __slots__ = ("_mask", "_memory", "arrived", "first", "size")

    def __init__(
        self, first: int, mask: bytes, size: int, begun: memoryview, trusted_bytes: int
    ) -> None:
        self.first = first
        self.size = size
        self._mask = mask
        self._memory = np.empty(min(size, trusted_bytes), np.uint8).data
        self._memory[: len(begun)] = begun
        self.arrived = len(begun)

    def free(self) -> memoryview:
        """Return the memory that the next bytes go to."""
        return self._memory[self.arrived :]

    def received(self, n: int) -> None:
        """Take note of that many bytes more, and find room for further ones."""
        self.arrived += n
        if len(self._memory) == self.arrived < self.size:
            memory = np.empty(min(2 * self.arrived, self.size), np.uint8).data
            memory[: self.arrived] = self._memory
            self._memory = memory

    def payload(self) -> memoryview:
        """Return the payload, unmasked; to be called once."""
        if self._mask:
            mask_in_place(self._memory, self._mask)
        return self._memory
