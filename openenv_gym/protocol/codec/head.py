"""The head of a packet, looked over before `msgpack` gets it.

`msgpack` allocates the list that a head claims before it has seen one of its items, at each level
of nesting anew, and it recurses through Python for each extension within another. So a head that
is not small is walked over first: what it claims is compared with what it has, and extensions that
hold other values are rewritten as arrays, which `msgpack` reads without any recursion.
"""

from __future__ import annotations

import re
import struct
from enum import Enum

from openenv_gym.errors import DecodeError
from openenv_gym.protocol.codec.format import (
    BIG_INT,
    COMPLEX,
    CONTAINERS,
    MAX_DEPTH,
    MAX_ITEMS,
    NDARRAY,
    SCALAR,
)


__all__ = ["MARKER", "SIZED_FORMATS", "Format", "flatten_head", "is_harmless"]


class Format(Enum):
    """What the first byte of a MessagePack value can announce, beside a plain value."""

    BYTES = 1  # a str or a bin
    EXTENSION = 2
    ARRAY = 3
    MAP = 4


SIZED_FORMATS: dict[int, tuple[Format, int, int]] = {
    **{0x80 + size: (Format.MAP, 0, size) for size in range(16)},
    **{0x90 + size: (Format.ARRAY, 0, size) for size in range(16)},
    **{0xA0 + size: (Format.BYTES, 0, size) for size in range(32)},
    **{0xC4 + power: (Format.BYTES, 1 << power, 0) for power in range(3)},
    **{0xC7 + power: (Format.EXTENSION, 1 << power, 0) for power in range(3)},
    **{0xD4 + power: (Format.EXTENSION, 0, 1 << power) for power in range(5)},
    **{0xD9 + power: (Format.BYTES, 1 << power, 0) for power in range(3)},
    **{0xDC + power: (Format.ARRAY, 2 << power, 0) for power in range(2)},
    **{0xDE + power: (Format.MAP, 2 << power, 0) for power in range(2)},
}
"""First byte -> what it announces, width of the size that follows, the size where none follows.

https://github.com/msgpack/msgpack/blob/master/spec.md, section "Formats".
"""

_ARRAYS = {
    byte: (width, size)
    for byte, (form, width, size) in SIZED_FORMATS.items()
    if form is Format.ARRAY
}

# First byte -> size of the whole value, where the byte tells it; else 0.
_WHOLE_SIZES = bytearray(256)
_WHOLE_SIZES[0x00:0x80] = b"\1" * 0x80  # small integers
_WHOLE_SIZES[0xE0:0x100] = b"\1" * 0x20
_WHOLE_SIZES[0xA0:0xC0] = bytes(range(1, 33))  # short strings
_WHOLE_SIZES[0xC0] = _WHOLE_SIZES[0xC2] = _WHOLE_SIZES[0xC3] = 1  # nil, false, true
_WHOLE_SIZES[0xCA:0xCC] = bytes((5, 9))  # floats
_WHOLE_SIZES[0xCC:0xD4] = bytes((2, 3, 5, 9, 2, 3, 5, 9))  # integers


# -- heads that need no walk --------------------------------------------------------------------

_SMALL_HEAD_BYTES = 4096
_NEITHER_ARRAY_NOR_MAP = bytes(
    byte
    for byte in range(256)
    if byte not in SIZED_FORMATS or SIZED_FORMATS[byte][0] not in (Format.ARRAY, Format.MAP)
)

# Where a head without this pattern has no extension of the type -1: msgpack makes its own Timestamp
# of that, without asking. (First byte, size, type; sizes other than 4, 8, 12 it refuses.)
_find_timestamp = re.compile(rb"[\xc7-\xc9\xd6\xd7][\x00\x04\x08\x0c]{0,4}\xff").search


def is_harmless(head: bytes) -> bool:
    """Tell whether `msgpack` may have a head as it is.

    It may where the head is small and has at most `MAX_DEPTH` bytes that could begin an array or a
    map: it cannot nest deeper, and its arrays claim no more than 64 times 4096 items in all.
    """
    return (
        len(head) <= _SMALL_HEAD_BYTES
        and (
            len(head) <= MAX_DEPTH or len(head.translate(None, _NEITHER_ARRAY_NOR_MAP)) <= MAX_DEPTH
        )
        and (0xFF not in head or _find_timestamp(head) is None)
    )


# -- the walk -----------------------------------------------------------------------------------

MARKER = 0
"""An extension type that the protocol does not have; see `flatten_head`."""

_MARKED_ARRAY = struct.Struct(">BIBBB")
_ARRAY_32 = 0xDD
_EXTENSION_OF_1 = 0xD4

_BYTES, _EXTENSION, _ARRAY, _MAP = Format  # globals are found faster than members


def flatten_head(head: bytes) -> tuple[bytes | bytearray, int]:
    """Check all of a head, and rewrite the extensions that hold other values.

    Args:
        head: One MessagePack value.

    Returns:
        The same value, but in place of each of those extensions an array: first a `MARKER`, whose
        payload is the extension's type in one byte, then the values. The head itself where there
        are none. And the number of pairs in the largest map.

    Raises:
        DecodeError: The head is not well-formed, nests too deep, has too many items or an unknown
            extension.
    """
    walk = _Walk(head)
    try:
        end = walk.skip(0, 1, 0)
    except (IndexError, struct.error):
        raise DecodeError("The head of a packet ends in the middle of a value.") from None
    except KeyError:
        raise DecodeError("A byte in the head of a packet begins no value.") from None
    if end != len(head):
        raise DecodeError("The head of a packet does not end where its array does.")
    return walk.flattened(), walk.largest_map


class _Walk:
    """One way over a head; positions are indices into it."""

    __slots__ = ("_copied", "_flat", "_head", "_items", "largest_map")

    def __init__(self, head: bytes) -> None:
        self.largest_map = 0
        self._head = head
        self._items = -1  # the message itself is in nothing
        self._flat = bytearray()
        self._copied = 0  # as much of the head is in `_flat`

    def flattened(self) -> bytes | bytearray:
        """Return the head without extensions that hold other values; to be called once."""
        if not self._flat:
            return self._head
        self._flat += self._head[self._copied :]
        return self._flat

    def skip(self, position: int, count: int, depth: int) -> int:
        """Return where so many values end, which begin at a position inside so many others."""
        head, whole_sizes = self._head, _WHOLE_SIZES
        if count > len(head) - position:
            raise DecodeError(f"An array or map claims {count} items, beyond the head's end.")
        self._items += count
        if self._items > MAX_ITEMS:
            raise DecodeError(f"A message has more than {MAX_ITEMS} items.")
        if depth > MAX_DEPTH:
            raise DecodeError(f"Values are nested more than {MAX_DEPTH} levels deep.")
        for _ in range(count):
            byte = head[position]
            size = whole_sizes[byte]
            if size:
                position += size
                continue
            form, width, size = SIZED_FORMATS[byte]
            start = position
            position += 1 + width
            if width:
                size = int.from_bytes(head[position - width : position], "big")
            if form is _BYTES:
                position += size
            elif form is _ARRAY:
                position = self.skip(position, size, depth + 1)
            elif form is _MAP:
                self.largest_map = max(self.largest_map, size)
                position = self.skip(position, 2 * size, depth + 1)
            else:
                position = self._skip_extension(start, position, size, depth)
        return position

    def _skip_extension(self, start: int, position: int, size: int, depth: int) -> int:
        """Return where an extension ends that begins at `start`, with its type at a position."""
        head = self._head
        code = head[position]
        position += 1
        end = position + size
        if code not in _ARRAY_EXTENSIONS:
            if code not in (BIG_INT, COMPLEX):
                raise DecodeError(f"The extension type {code} is unknown.")
            return end
        header = _ARRAYS.get(head[position])
        if header is None:
            raise DecodeError("The payload of an extension is not an array.")
        width, count = header
        position += 1 + width
        if width:
            count = int.from_bytes(head[position - width : position], "big")
        if code in CONTAINERS:
            self._flat += head[self._copied : start]
            self._flat += _MARKED_ARRAY.pack(_ARRAY_32, count + 1, _EXTENSION_OF_1, MARKER, code)
            self._copied = position
        if self.skip(position, count, depth + 1) != end:
            raise DecodeError("The payload of an extension does not end where its array does.")
        if code not in CONTAINERS and self._copied > start:
            raise DecodeError("An array or a scalar holds other values.")
        return end


_ARRAY_EXTENSIONS = CONTAINERS | {NDARRAY, SCALAR}
