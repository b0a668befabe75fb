"""Dtypes and shapes as plain data, and what is no value of them.

Nothing here evaluates or unpickles anything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from openenv_gym.errors import DecodeError, EncodeError
from openenv_gym.protocol.codec.format import (
    MAX_DIMENSIONS,
    MAX_EMPTY_BYTES,
    MAX_EMPTY_ITEMS,
    MAX_FIELD_DEPTH,
    MAX_ITEM_BYTES,
)


__all__ = [
    "NO_BOOLEAN",
    "Layout",
    "check_values",
    "claims_too_much",
    "count_items",
    "dtype_to_wire",
    "layout_from_wire",
    "portable_dtype",
]


NO_BOOLEAN = "A boolean is neither 0 nor 1."


# -- to the wire --------------------------------------------------------------------------------


def portable_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a dtype in little-endian byte order.

    Raises:
        EncodeError: The protocol does not carry it; the text says why.
    """
    if dtype.hasobject:
        raise EncodeError("a structured array with Python objects in it has no bytes to send")
    if dtype.kind not in "biufcSUVmM":
        raise EncodeError(f"arrays of dtype {dtype} are unknown to the protocol")
    if dtype.kind == "V" and not issubclass(dtype.type, np.void):
        raise EncodeError(f"{dtype} is no dtype of NumPy's own", hint="Convert it to float32, say.")
    if dtype.kind in "fc" and dtype.itemsize > (8 if dtype.kind == "f" else 16):
        raise EncodeError(
            f"{dtype} has no portable form", hint="Convert it to float64 or complex128."
        )
    little: np.dtype[Any] = dtype.newbyteorder("<")
    return little


def dtype_to_wire(dtype: np.dtype[Any], depth: int = 1) -> str | list[Any]:
    """Return a dtype as plain data.

    Args:
        dtype: The dtype, portable.
        depth: How many structured dtypes it is in, itself included.

    Raises:
        EncodeError: The protocol does not carry it; the text says why.
    """
    if dtype.names is None:
        return str(dtype.str)
    if depth > MAX_FIELD_DEPTH:
        raise EncodeError(f"a structured dtype is nested more than {MAX_FIELD_DEPTH} levels deep")
    fields: list[Any] = []
    end = 0
    for name in dtype.names:
        field, offset, *title = dtype.fields[name]  # type: ignore[index]  # it has names
        if title:
            raise EncodeError("a structured dtype with titles is unknown to the protocol")
        if offset < end:
            raise EncodeError("a structured dtype whose fields overlap is unknown to the protocol")
        if offset > end:
            fields.append(["", f"|V{offset - end}"])
        base, shape = field.subdtype or (field, ())
        wire = dtype_to_wire(portable_dtype(base), depth + 1)
        fields.append([name, wire, list(shape)] if shape else [name, wire])
        end = offset + field.itemsize
    if dtype.itemsize > end:
        fields.append(["", f"|V{dtype.itemsize - end}"])
    return fields


# -- from the wire ------------------------------------------------------------------------------


class Layout(NamedTuple):
    """A dtype that was read.

    Attributes:
        dtype: The dtype.
        item_bytes: Size of one item, in bytes.
        checked: Not every pattern of bytes is a value of it (see `check_values`).
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


def layout_from_wire(wire: object, depth: int = 1) -> Layout:
    """Return the dtype that plain data describes.

    Args:
        wire: The data.
        depth: How many structured dtypes it is in, itself included.

    Raises:
        DecodeError: It describes none that the protocol carries. NumPy may raise other exceptions.
    """
    if type(wire) is not str:
        return _structured_layout(wire, depth)
    layout = _layouts.get(wire)
    if layout is None:
        match = _DTYPE.fullmatch(wire)
        if match is None or (wire[1] == "U" and int(wire[2:]) * 4 > MAX_ITEM_BYTES):
            raise DecodeError(f"{wire[:40]!r} is no dtype of this protocol.")
        dtype = np.dtype(wire)
        layout = Layout(dtype, dtype.itemsize, dtype.kind in "bU")
        if len(_layouts) >= _MAX_LAYOUTS:
            _layouts.clear()
        _layouts[wire] = layout
    return layout


def _structured_layout(wire: object, depth: int) -> Layout:
    if type(wire) is not list or depth > MAX_FIELD_DEPTH:
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
        layout = layout_from_wire(inner, depth + 1)
        if name:
            names.append(name)
            formats.append((layout.dtype, tuple(shape)) if shape else layout.dtype)
            offsets.append(end)
            checked |= layout.checked
        end += count * layout.item_bytes
        if end > MAX_ITEM_BYTES:
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


# -- what is refused ----------------------------------------------------------------------------


def claims_too_much(shape: Sequence[int], item_bytes: int) -> bool:
    """Tell whether an array that has no bytes claims to be huge in the rest of its shape.

    Args:
        shape: Its shape.
        item_bytes: Size of one item, in bytes.
    """
    count = math.prod(length for length in shape if length)
    return count * item_bytes > MAX_EMPTY_BYTES or (not item_bytes and count > MAX_EMPTY_ITEMS)


def check_values(array: np.ndarray[Any, Any]) -> None:
    """Refuse bytes that are no values of the array's dtype.

    NumPy takes a boolean of 2 for neither True nor False, and fails with a SystemError when it
    reads a character beyond Unicode.

    Raises:
        DecodeError: There are such bytes.
    """
    if array.dtype.names is not None:
        for name in array.dtype.names:
            check_values(array[name])
    elif not array.nbytes:
        pass
    elif array.dtype.kind == "b":
        # For a few bytes this is the faster way by far.
        if array.nbytes <= 512:
            valid = not array.tobytes().translate(None, b"\0\1")
        else:
            valid = bool(array.view(np.uint8).max() <= 1)
        if not valid:
            raise DecodeError(NO_BOOLEAN)
    elif array.dtype.kind == "U":
        characters = np.ascontiguousarray(array).reshape(-1).view(np.dtype("<u4"))
        if characters.max() > 0x10FFFF:
            raise DecodeError("A character is beyond Unicode.")
