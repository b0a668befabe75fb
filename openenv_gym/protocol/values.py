"""NumPy dtypes and shapes as plain data, and the check of a decoded array's bytes.

What docs/protocol.md, section 3, says of arrays. A dtype is a string of NumPy's array-interface
form, or a list of fields; nothing here evaluates or unpickles anything.
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

import numpy as np


__all__ = [
    "MAX_DIMENSIONS",
    "Layout",
    "check_bytes",
    "count_items",
    "dtype_to_wire",
    "layout_from_wire",
    "portable_dtype",
]

# NumPy 1 holds no more dimensions; NumPy 2 holds 64.
MAX_DIMENSIONS = 32

# NumPy keeps the size of one item in a C int.
_MAX_ITEM_BYTES = 2**31 - 1

# An array of no bytes may still claim any number of items, or any length of its other dimensions;
# whoever loops over them, or allocates a row, pays for the claim.
_MAX_EMPTY_ITEMS = 2**16
_MAX_EMPTY_BYTES = 2**31 - 1

# Fields within fields; the codec bounds nesting in general, this bounds NumPy's own recursion.
_MAX_FIELD_DEPTH = 16

_NUMBER = r"(0|[1-9][0-9]{0,8})"
_DTYPE = re.compile(
    rf"\|b1|\|[iu]1|<[iu][248]|<f[248]|<c(?:8|16)|[|][SV]{_NUMBER}|<U{_NUMBER}"
    rf"|<[mM]8(?:\[{_NUMBER}?(?:Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?"
)


class Layout(NamedTuple):
    """A dtype that was read.

    Attributes:
        dtype: The dtype.
        item_bytes: Size of one item, in bytes.
        checked: Not every pattern of bytes is a value of it (see `check_bytes`).
    """

    dtype: np.dtype[Any]
    item_bytes: int
    checked: bool


# Filled by what is in use; a peer that makes up names empties it now and then and no more.
_layouts: dict[str, Layout] = {}
_MAX_LAYOUTS = 256


def portable_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in little-endian byte order.

    Args:
        dtype: Any dtype but `object`.

    Raises:
        ValueError: The protocol does not carry this dtype; the text says why.
    """
    if dtype.hasobject:
        raise ValueError("a structured array with Python objects in it cannot be sent")
    if dtype.kind not in "biufcSUVmM":
        raise ValueError(f"arrays of dtype {dtype} cannot be sent")
    if dtype.kind == "V" and not issubclass(dtype.type, np.void):
        raise ValueError(f"{dtype} is no dtype of NumPy's own; convert to float32, say")
    if dtype.kind in "fc" and dtype.itemsize > (8 if dtype.kind == "f" else 16):
        raise ValueError(f"{dtype} has no portable form; convert to float64 or complex128")
    return dtype.newbyteorder("<")


def dtype_to_wire(dtype: np.dtype[Any]) -> str | list[Any]:
    """Return a dtype as plain data.

    Args:
        dtype: What `portable_dtype` returned.

    Raises:
        ValueError: The protocol does not carry this dtype; the text says why.
    """
    if dtype.subdtype is not None:
        raise ValueError("a dtype of arrays is known only inside a structured one")
    portable_dtype(dtype)
    if dtype.names is None:
        return dtype.str
    fields: list[Any] = []
    end = 0
    for name in dtype.names:
        field, offset, *title = dtype.fields[name]  # type: ignore[index]
        if title:
            raise ValueError("a structured dtype with titles cannot be sent")
        if offset < end:
            raise ValueError("a structured dtype whose fields overlap cannot be sent")
        if offset > end:
            fields.append(["", f"|V{offset - end}"])
        base, shape = field.subdtype or (field, ())
        wire = dtype_to_wire(base)
        fields.append([name, wire, list(shape)] if shape else [name, wire])
        end = offset + field.itemsize
    if dtype.itemsize > end:
        fields.append(["", f"|V{dtype.itemsize - end}"])
    return fields


def layout_from_wire(wire: object) -> Layout:
    """Return the dtype that plain data describes.

    Raises:
        ValueError: It describes none that the protocol carries.
    """
    if type(wire) is str:
        layout = _layouts.get(wire)
        if layout is None:
            layout = _plain_layout(wire)
            if len(_layouts) >= _MAX_LAYOUTS:
                _layouts.clear()
            _layouts[wire] = layout
        return layout
    return _structured_layout(wire, 1)


def _plain_layout(wire: str) -> Layout:
    match = _DTYPE.fullmatch(wire)
    if match is None or int(match[2] or 0) * 4 > _MAX_ITEM_BYTES:
        raise ValueError(f"{wire[:40]!r} is no dtype of this protocol")
    dtype = np.dtype(wire)
    return Layout(dtype, dtype.itemsize, dtype.kind in "bU")


def _structured_layout(wire: object, depth: int) -> Layout:
    if type(wire) is not list or depth > _MAX_FIELD_DEPTH:
        raise ValueError("a dtype is neither a string nor a list of fields")
    names: list[str] = []
    formats: list[Any] = []
    offsets: list[int] = []
    checked = False
    end = 0
    for field in wire:
        if type(field) is not list or len(field) not in (2, 3) or type(field[0]) is not str:
            raise ValueError("a field of a dtype is not [name, dtype] or [name, dtype, shape]")
        layout = (
            layout_from_wire(field[1])
            if type(field[1]) is str
            else _structured_layout(field[1], depth + 1)
        )
        shape = field[2] if len(field) == 3 else []
        size = count_items(shape) * layout.item_bytes
        if field[0]:
            names.append(field[0])
            formats.append((layout.dtype, tuple(shape)) if shape else layout.dtype)
            offsets.append(end)
            checked |= layout.checked
        end += size
        if end > _MAX_ITEM_BYTES:
            raise ValueError("an item of a structured dtype is larger than 2 GiB")
    dtype = np.dtype(
        {"names": names, "formats": formats, "offsets": offsets, "itemsize": end}  # type: ignore[call-overload]
    )
    return Layout(dtype, end, checked)


def count_items(shape: object) -> int:
    """Return the number of items of an array of this shape.

    Raises:
        ValueError: It is no shape.
    """
    if type(shape) is not list or len(shape) > MAX_DIMENSIONS:
        raise ValueError(f"a shape is not an array of at most {MAX_DIMENSIONS} integers")
    count = 1
    for length in shape:
        if type(length) is not int or length < 0:
            raise ValueError("a length in a shape is not a non-negative integer")
        count *= length
    return count


def check_empty(shape: list[int] | tuple[int, ...], item_bytes: int) -> None:
    """Refuse an array that has no bytes and yet claims to be huge.

    Raises:
        ValueError: It does.
    """
    lengths = math.prod(length for length in shape if length)
    if lengths * item_bytes > _MAX_EMPTY_BYTES or (not item_bytes and lengths > _MAX_EMPTY_ITEMS):
        raise ValueError(f"an array without bytes has the shape {tuple(shape)}")


def check_bytes(array: np.ndarray[Any, Any]) -> None:
    """Refuse bytes that are no values of the array's dtype.

    NumPy takes a boolean of 2 for neither True nor False, and fails with a SystemError when it
    reads a character beyond Unicode.

    Raises:
        ValueError: There are such bytes.
    """
    dtype = array.dtype
    if dtype.names is not None:
        for name in dtype.names:
            check_bytes(array[name])
    elif dtype.kind == "b":
        if array.size and np.ascontiguousarray(array).view(np.uint8).max() > 1:
            raise ValueError("a boolean is neither 0 nor 1")
    elif dtype.kind == "U" and array.size and dtype.itemsize:
        points = np.ascontiguousarray(array).reshape(-1).view(np.dtype("<u4"))
        if points.max() > 0x10FFFF:
            raise ValueError("a character is beyond Unicode")
