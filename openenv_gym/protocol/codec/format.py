"""What docs/protocol.md fixes in sections 2 and 3: layout of a packet, extension types, limits."""

from __future__ import annotations

import struct
from typing import Any

import msgpack

from openenv_gym.errors import DecodeError


__all__ = [
    "ALIGNMENT_BYTES",
    "BIG_INT",
    "BIN8",
    "BUFFERS_ELSEWHERE",
    "COMPLEX",
    "CONTAINERS",
    "FROZENSET",
    "GRAPH",
    "HEAD_START",
    "MAX_BIG_INT_BYTES",
    "MAX_DEPTH",
    "MAX_DIMENSIONS",
    "MAX_EMPTY_BYTES",
    "MAX_EMPTY_ITEMS",
    "MAX_FIELD_DEPTH",
    "MAX_ITEMS",
    "MAX_ITEM_BYTES",
    "NDARRAY",
    "OBJECT_ARRAY",
    "SCALAR",
    "SET",
    "TUPLE",
    "bin_header",
    "extension",
    "pack_head_size",
    "unpack_array",
    "unpack_head_size",
]

# -- layout -------------------------------------------------------------------------------------

ALIGNMENT_BYTES = 16
"""Buffers begin at multiples of this, counted from the start of the packet."""

_HEAD_SIZE = struct.Struct("<I")
HEAD_START = _HEAD_SIZE.size

BUFFERS_ELSEWHERE = 1 << 31
"""In the size of a head: the buffers are in shared memory, and not behind it."""

# By themselves, because a global is found faster than an attribute.
pack_head_size = _HEAD_SIZE.pack
unpack_head_size = _HEAD_SIZE.unpack_from

# -- extensions ---------------------------------------------------------------------------------

TUPLE = 1
NDARRAY = 2
SCALAR = 3
BIG_INT = 4
COMPLEX = 5
SET = 6
FROZENSET = 7
OBJECT_ARRAY = 8
GRAPH = 9

CONTAINERS = frozenset({TUPLE, SET, FROZENSET, OBJECT_ARRAY, GRAPH})
"""Extensions that hold other values."""

_new_tuple = tuple.__new__
_ExtType = msgpack.ExtType


def extension(code: int, payload: bytes) -> msgpack.ExtType:
    """Return an extension; the class itself would check its arguments, at thrice the cost."""
    return _new_tuple(_ExtType, (code, payload))


def unpack_array(payload: bytes) -> list[Any]:
    """Return the items of an extension's payload that holds no other values.

    Raises:
        DecodeError: It is no array. `msgpack` may raise other exceptions.
    """
    items = msgpack.unpackb(payload)
    if type(items) is not list:
        raise DecodeError("The payload of an extension is not an array.")
    return items


BIN8 = 0xC4
"""First byte of a MessagePack bin of up to 255 bytes."""


def bin_header(size_bytes: int) -> bytes:
    """Return what MessagePack writes before a bin of this size."""
    header: bytes = msgpack.packb(bytes(size_bytes))
    return header[: len(header) - size_bytes]


# -- limits -------------------------------------------------------------------------------------

MAX_DEPTH = 64
"""Arrays and maps within each other, those inside extensions included."""

MAX_ITEMS = 2**20
"""Items of all arrays and maps of a packet together; a pair of a map is two.

A Python object takes up to a hundred times the few bytes that it is sent as.
"""

MAX_BIG_INT_BYTES = 1024
"""Size of an integer of more than 64 bits."""

MAX_DIMENSIONS = 32
"""Dimensions of an array: NumPy 1 holds no more, NumPy 2 holds 64."""

MAX_FIELD_DEPTH = 16
"""Structured dtypes within each other, for NumPy's own recursion; `MAX_DEPTH` counts them too."""

MAX_ITEM_BYTES = 2**31 - 1
"""Size of one item of an array, which NumPy keeps in a C int."""

MAX_EMPTY_BYTES = 2**31 - 1
"""What an array with a zero in its shape may claim in its other dimensions.

Whoever loops over it, or allocates a row of it, pays for the claim.
"""

MAX_EMPTY_ITEMS = 2**16
"""The same in items, where an item has no bytes."""
