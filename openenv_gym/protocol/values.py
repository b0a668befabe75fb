"""What docs/protocol.md, section 3, says of values: extension types, dtypes, limits.

Nothing here evaluates or unpickles anything.
"""

from __future__ import annotations

import math
import re
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from openenv_gym.errors import DecodeError


__all__ = [
    "BIG_INT",
    "COMPLEX",
    "FROZENSET",
    "GRAPH",
    "MANY_KEYS",
    "MAX_BIG_INT_BYTES",
    "MAX_DEPTH",
    "MAX_DIMENSIONS",
    "MAX_ITEMS",
    "NDARRAY",
    "NESTING_EXTENSIONS",
    "OBJECT_ARRAY",
    "SCALAR",
    "SET",
    "SIZED_FORMATS",
    "TUPLE",
    "Format",
    "Layout",
    "check_array",
    "check_empty_array",
    "check_head",
    "check_keys",
    "count_items",
    "dtype_to_wire",
    "layout_from_wire",
    "portable_dtype",
    "walk_head",
]

MAX_DEPTH = 64
"""Arrays and maps within each other, those inside extensions included."""

MAX_ITEMS = 2**20
"""Items of all arrays and maps of a packet together; a pair of a map is two.

A Python object takes up to a hundred times the few bytes that it is sent as.
"""

MAX_DIMENSIONS = 32
"""Dimensions of an array: NumPy 1 holds no more, NumPy 2 holds 64."""

MAX_BIG_INT_BYTES = 1024
"""Size of an integer of more than 64 bits."""

# NumPy keeps the size of one item in a C int.
_MAX_ITEM_BYTES = 2**31 - 1

# Fields within fields. `MAX_DEPTH` bounds these as well; this bounds NumPy's own recursion.
_MAX_FIELD_DEPTH = 16

# An array of no bytes may still claim any number of items, or any length of its other dimensions;
# whoever loops over it, or allocates a row of it, pays for the claim.
_MAX_EMPTY_ITEMS = 2**16
_MAX_EMPTY_BYTES = 2**31 - 1


# Extension types.
TUPLE = 1
NDARRAY = 2
SCALAR = 3
BIG_INT = 4
COMPLEX = 5
SET = 6
FROZENSET = 7
OBJECT_ARRAY = 8
GRAPH = 9

NESTING_EXTENSIONS = frozenset({TUPLE, NDARRAY, SCALAR, SET, FROZENSET, OBJECT_ARRAY, GRAPH})
"""Extensions whose payload is an array."""


# ---------------------------------------------------------------------------------------------
# Dtypes and shapes


class Layout(NamedTuple):
    """A dtype that was read.

    Attributes:
        dtype: The dtype.
        item_bytes: Size of one item, in bytes.
        checked: Not every pattern of bytes is a value of it (see `check_array`).
    """

    dtype: np.dtype[Any]
    item_bytes: int
    checked: bool


# Filled by what is in use. A peer that makes up dtypes can do no more than empty it.
_layouts: dict[str, Layout] = {}
_MAX_LAYOUTS = 256

_SIZE = r"(?:0|[1-9][0-9]{0,8})"
_DTYPE = re.compile(
    rf"\|b1|\|[iu]1|<[iu][248]|<f[248]|<c8|<c16|[|][SV]{_SIZE}|<U{_SIZE}"
    r"|<[mM]8(?:\[(?:[1-9][0-9]{0,8})?(?:Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?"
)


def portable_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in little-endian byte order.

    Raises:
        ValueError: The protocol does not carry this dtype; the text says why.
    """
    if dtype.hasobject:
        raise ValueError("a structured array with Python objects in it has no bytes to send")
    if dtype.kind not in "biufcSUVmM":
        raise ValueError(f"arrays of dtype {dtype} are unknown to the protocol")
    if dtype.kind == "V" and not issubclass(dtype.type, np.void):
        raise ValueError(f"{dtype} is no dtype of NumPy's own; convert it to float32, say")
    if dtype.kind in "fc" and dtype.itemsize > (8 if dtype.kind == "f" else 16):
        raise ValueError(f"{dtype} has no portable form; convert it to float64 or complex128")
    little: np.dtype[Any] = dtype.newbyteorder("<")
    return little


def dtype_to_wire(dtype: np.dtype[Any], depth: int = 1) -> str | list[Any]:
    """Return a dtype as plain data.

    Args:
        dtype: The dtype, little-endian.
        depth: How deep it lies inside others.

    Raises:
        ValueError: The protocol does not carry this dtype; the text says why.
    """
    portable_dtype(dtype)
    if dtype.names is None:
        return str(dtype.str)
    if depth > _MAX_FIELD_DEPTH:
        raise ValueError(f"a structured dtype is nested more than {_MAX_FIELD_DEPTH} levels deep")
    fields: list[Any] = []
    end = 0
    for name in dtype.names:
        field, offset, *title = dtype.fields[name]  # type: ignore[index]
        if title:
            raise ValueError("a structured dtype with titles is unknown to the protocol")
        if offset < end:
            raise ValueError("a structured dtype whose fields overlap is unknown to the protocol")
        if offset > end:
            fields.append(["", f"|V{offset - end}"])
        base, shape = field.subdtype or (field, ())
        wire = dtype_to_wire(base, depth + 1)
        fields.append([name, wire, list(shape)] if shape else [name, wire])
        end = offset + field.itemsize
    if dtype.itemsize > end:
        fields.append(["", f"|V{dtype.itemsize - end}"])
    return fields


def layout_from_wire(wire: object) -> Layout:
    """Return the dtype that plain data describes.

    Raises:
        DecodeError: It describes none that the protocol carries. NumPy may raise other exceptions.
    """
    if type(wire) is not str:
        return _structured_layout(wire, 1)
    layout = _layouts.get(wire)
    if layout is None:
        match = _DTYPE.fullmatch(wire)
        if match is None or (wire[1] == "U" and int(wire[2:]) * 4 > _MAX_ITEM_BYTES):
            raise DecodeError(f"{wire[:40]!r} is no dtype of this protocol.")
        dtype = np.dtype(wire)
        layout = Layout(dtype, dtype.itemsize, dtype.kind in "bU")
        if len(_layouts) >= _MAX_LAYOUTS:
            _layouts.clear()
        _layouts[wire] = layout
    return layout


def _structured_layout(wire: object, depth: int) -> Layout:
    if type(wire) is not list or depth > _MAX_FIELD_DEPTH:
        raise DecodeError("A dtype is neither a string nor an array of fields.")
    names: list[str] = []
    formats: list[Any] = []
    offsets: list[int] = []
    checked = False
    end = 0
    for field in wire:
        if type(field) is not list or len(field) not in (2, 3) or type(field[0]) is not str:
            raise DecodeError("A field of a dtype is not [name, dtype] or [name, dtype, shape].")
        name, inner, *rest = field
        shape = rest[0] if rest else []
        count = count_items(shape)
        layout = (
            layout_from_wire(inner) if type(inner) is str else _structured_layout(inner, depth + 1)
        )
        if name:
            names.append(name)
            formats.append((layout.dtype, tuple(shape)) if shape else layout.dtype)
            offsets.append(end)
            checked |= layout.checked
        end += count * layout.item_bytes
        if end > _MAX_ITEM_BYTES:
            raise DecodeError("An item of a structured dtype is larger than 2 GiB.")
    spec: Any = {"names": names, "formats": formats, "offsets": offsets, "itemsize": end}
    return Layout(np.dtype(spec), end, checked)


def count_items(shape: object) -> int:
    """Return the number of items of an array of this shape.

    Raises:
        DecodeError: It is no shape.
    """
    if type(shape) is not list or len(shape) > MAX_DIMENSIONS:
        raise DecodeError(f"A shape is not an array of at most {MAX_DIMENSIONS} integers.")
    count = 1
    for length in shape:
        if type(length) is not int or length < 0:
            raise DecodeError("A length in a shape is not a non-negative integer.")
        count *= length
    return count


def check_empty_array(shape: list[int] | tuple[int, ...], item_bytes: int) -> None:
    """Refuse an array that has no bytes and yet claims to be huge.

    Args:
        shape: Its shape.
        item_bytes: Size of one item, in bytes.

    Raises:
        ValueError: It does.
    """
    count = math.prod(length for length in shape if length)
    if count * item_bytes > _MAX_EMPTY_BYTES or (not item_bytes and count > _MAX_EMPTY_ITEMS):
        raise ValueError(f"an array without bytes has the shape {tuple(shape)}")


def check_array(array: np.ndarray[Any, Any]) -> None:
    """Refuse bytes that are no values of the array's dtype.

    NumPy takes a boolean of 2 for neither True nor False, and fails with a SystemError when it
    reads a character beyond Unicode.

    Raises:
        DecodeError: There are such bytes.
    """
    if array.dtype.names is not None:
        for name in array.dtype.names:
            check_array(array[name])
    elif not array.nbytes:
        pass
    elif array.dtype.kind == "b":
        # For a few bytes this is the faster way by far.
        if array.nbytes <= 512:
            valid = not array.tobytes().translate(None, b"\0\1")
        else:
            valid = bool(array.view(np.uint8).max() <= 1)
        if not valid:
            raise DecodeError("A boolean is neither 0 nor 1.")
    elif array.dtype.kind == "U":
        characters = np.ascontiguousarray(array).reshape(-1).view(np.dtype("<u4"))
        if characters.max() > 0x10FFFF:
            raise DecodeError("A character is beyond Unicode.")


# ---------------------------------------------------------------------------------------------
# Limits of a head


class Format(Enum):
    """What the first byte of a MessagePack value can announce, beside a plain value."""

    STR = 1
    BIN = 2
    EXTENSION = 3
    ARRAY = 4
    MAP = 5


# First byte -> (what it announces, width of the size that follows, the size where none follows).
# https://github.com/msgpack/msgpack/blob/master/spec.md, section "Formats".
SIZED_FORMATS: dict[int, tuple[Format, int, int]] = {
    **{0x80 + size: (Format.MAP, 0, size) for size in range(16)},
    **{0x90 + size: (Format.ARRAY, 0, size) for size in range(16)},
    **{0xA0 + size: (Format.STR, 0, size) for size in range(32)},
    **{0xC4 + power: (Format.BIN, 1 << power, 0) for power in range(3)},
    **{0xC7 + power: (Format.EXTENSION, 1 << power, 0) for power in range(3)},
    **{0xD4 + power: (Format.EXTENSION, 0, 1 << power) for power in range(5)},
    **{0xD9 + power: (Format.STR, 1 << power, 0) for power in range(3)},
    **{0xDC + power: (Format.ARRAY, 2 << power, 0) for power in range(2)},
    **{0xDE + power: (Format.MAP, 2 << power, 0) for power in range(2)},
}

# First byte -> size of the whole value, where the byte tells it; else 0.
_WHOLE_SIZES = bytearray(256)
_WHOLE_SIZES[0x00:0x80] = b"\1" * 0x80  # small integers
_WHOLE_SIZES[0xE0:0x100] = b"\1" * 0x20
_WHOLE_SIZES[0xA0:0xC0] = bytes(range(1, 33))  # short strings
_WHOLE_SIZES[0xC0] = _WHOLE_SIZES[0xC2] = _WHOLE_SIZES[0xC3] = 1  # nil, false, true
_WHOLE_SIZES[0xCA:0xCC] = bytes((5, 9))  # floats
_WHOLE_SIZES[0xCC:0xD4] = bytes((2, 3, 5, 9, 2, 3, 5, 9))  # integers

# A head of this size at most, with at most MAX_DEPTH bytes that could begin an array or a map, is
# harmless: it cannot nest deeper, and its arrays claim no more than 64 times 512 items in all.
_SMALL_HEAD_BYTES = 512
_NEITHER_ARRAY_NOR_MAP = bytes(
    byte
    for byte in range(256)
    if byte not in SIZED_FORMATS or SIZED_FORMATS[byte][0] not in (Format.ARRAY, Format.MAP)
)

# Where a head without this pattern has no extension of the type -1: msgpack makes its own Timestamp
# of that, without asking. (First byte, size, type; sizes other than 4, 8, 12 it refuses.)
_find_timestamp = re.compile(rb"[\xc7-\xc9\xd6\xd7][\x00\x04\x08\x0c]{0,4}\xff").search

MANY_KEYS = 256
"""Up to as many keys their hashes do not matter (see `check_keys`)."""


def check_head(head: bytes) -> bool:
    """Refuse a head that would take more memory, time or nesting than it may.

    `msgpack` allocates the list that a head claims before it has seen one of its items, at each
    level of nesting anew, and recurses for each extension within another.

    Args:
        head: The bytes that are to be given to `msgpack`.

    Returns:
        Whether it holds more than `MANY_KEYS` extensions, so that hashes that were made to collide
        could matter.

    Raises:
        DecodeError: The head is not well-formed, nests too deep or has too many items. Of a small
            head that can do no harm, not all of this is checked.
    """
    if (
        len(head) <= _SMALL_HEAD_BYTES
        and (
            len(head) <= MAX_DEPTH or len(head.translate(None, _NEITHER_ARRAY_NOR_MAP)) <= MAX_DEPTH
        )
        and (0xFF not in head or _find_timestamp(head) is None)
    ):
        return False
    return walk_head(head)


def walk_head(head: bytes) -> bool:
    """Check all of a head, whatever its size; see `check_head`."""
    try:
        return _walk(head)
    except IndexError:
        raise DecodeError("The head of a packet ends in the middle of a value.") from None
    except KeyError:
        raise DecodeError("A byte in the head of a packet begins no value.") from None


def _walk(head: bytes) -> bool:
    whole_sizes = _WHOLE_SIZES
    # Of the innermost array or map: how many items are still to come, and, where it is the payload
    # of an extension, the end of that, else -1. The same of those around it is in `outer`.
    left = 1
    payload_end = -1
    outer: list[tuple[int, int]] = []
    position = 0
    items = 0
    extensions = 0
    while True:
        while left:
            left -= 1
            byte = head[position]
            size = whole_sizes[byte]
            if size:
                position += size
                continue
            form, width, size = SIZED_FORMATS[byte]
            position += 1 + width
            if width:
                size = int.from_bytes(head[position - width : position], "big")
            inner_end = -1
            if form is Format.EXTENSION:
                code = head[position]
                position += 1
                inner_end = position + size
                extensions += code != NDARRAY
                if code not in NESTING_EXTENSIONS:
                    if code != BIG_INT and code != COMPLEX:
                        raise DecodeError(f"The extension type {code} is unknown.")
                    position = inner_end
                    continue
                form, width, size = SIZED_FORMATS[head[position]]
                if form is not Format.ARRAY:
                    raise DecodeError("The payload of an extension is not an array.")
                position += 1 + width
                if width:
                    size = int.from_bytes(head[position - width : position], "big")
            elif form is Format.MAP:
                size *= 2
            elif form is not Format.ARRAY:
                position += size
                continue
            if size > len(head) - position:
                raise DecodeError(f"An array or map claims {size} items, beyond the head's end.")
            items += size
            if items > MAX_ITEMS:
                raise DecodeError(f"A message has more than {MAX_ITEMS} items.")
            outer.append((left, payload_end))
            if len(outer) > MAX_DEPTH:
                raise DecodeError(f"Values are nested more than {MAX_DEPTH} levels deep.")
            left, payload_end = size, inner_end
        if payload_end not in (-1, position):
            raise DecodeError("The payload of an extension does not end where its array does.")
        if not outer:
            break
        left, payload_end = outer.pop()
    if position != len(head):
        raise DecodeError("The head of a packet does not end where its array does.")
    return extensions > MANY_KEYS


def check_keys(keys: list[Any]) -> None:
    """Refuse keys that were made to have the same hash.

    Python salts the hashes of str and bytes, and of 64-bit integers and floats only a few have the
    same. But anybody can compute any number of tuples, frozensets, complex numbers or big integers
    with one hash; to put n of them into a set takes n * n comparisons.

    Args:
        keys: Items of a set or keys of a map, before they are put into one.

    Raises:
        DecodeError: More than `MANY_KEYS` have a hash that an earlier one has.
        TypeError: One is not hashable.
    """
    if len(keys) > MANY_KEYS and len(keys) - len({hash(key) for key in keys}) > MANY_KEYS:
        raise DecodeError("The keys of a map, or the items of a set, have the same hashes.")
