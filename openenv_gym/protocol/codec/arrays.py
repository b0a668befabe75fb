"""NumPy arrays: to extensions and back, with the bytes of large ones beside the head.

Environments send arrays of the same few forms again and again, so what precedes an array's bytes
in its payload is kept, in both directions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgpack
import numpy as np

from openenv_gym.errors import DecodeError, EncodeError
from openenv_gym.protocol.codec.dtypes import (
    NO_BOOLEAN,
    check_values,
    claims_too_much,
    count_items,
    dtype_to_wire,
    layout_from_wire,
    portable_dtype,
)
from openenv_gym.protocol.codec.format import (
    BIN8,
    MAX_DIMENSIONS,
    NDARRAY,
    bin_header,
    extension,
    unpack_array,
)


__all__ = ["INLINE_LIMIT_BYTES", "fill_object_array", "read_array", "write_array"]

INLINE_LIMIT_BYTES = 512
"""Largest array that travels inside the head: copying it costs less than a buffer of its own."""

# -- to extensions ------------------------------------------------------------------------------

# What is sent of arrays of a dtype and shape before their bytes; whether these follow inline; and
# what to convert the array to first, if anything.
_Plan: TypeAlias = "tuple[bytes, bool, np.dtype[Any] | None]"
_plans: dict[tuple[np.dtype[Any], tuple[int, ...]], _Plan] = {}
_MAX_PLANS = 1024


_new_tuple = tuple.__new__
_ExtType = msgpack.ExtType


def write_array(array: np.ndarray[Any, Any], buffers: list[memoryview]) -> msgpack.ExtType | None:
    """Return the extension for an array.

    Args:
        array: The array.
        buffers: Where the bytes of a large one go: a view of it, where it can be had.

    Returns:
        The extension; None for an array of Python objects, which has no bytes to send.

    Raises:
        EncodeError: The protocol does not carry its dtype or shape.
    """
    key = (array.dtype, array.shape)
    plan = _plans.get(key)
    if plan is None:
        if array.dtype.kind == "O":
            return None
        plan = _make_plan(array)
        if len(_plans) >= _MAX_PLANS:
            _plans.clear()
        _plans[key] = plan
    prefix, is_inline, dtype = plan
    if dtype is not None:
        array = array.astype(dtype)
    if is_inline:
        # As `extension` does; there is an array or two in every info, so a call counts.
        return _new_tuple(_ExtType, (NDARRAY, prefix + array.tobytes()))
    if not array.flags.c_contiguous:
        array = array.copy()
    prefix += msgpack.packb(len(buffers))
    # Not memoryview(array): Python's buffers know no datetime64, and do not cast all others.
    buffers.append(array.reshape(-1).view(np.uint8).data)
    return extension(NDARRAY, prefix)


def _make_plan(array: np.ndarray[Any, Any]) -> _Plan:
    if array.ndim > MAX_DIMENSIONS:
        raise EncodeError(
            f"an array has {array.ndim} dimensions, and at most {MAX_DIMENSIONS} can be sent",
            hint="Reshape it.",
        )
    dtype = portable_dtype(array.dtype)
    if not array.nbytes and claims_too_much(array.shape, array.itemsize):
        raise EncodeError(f"an array without bytes has the shape {array.shape}")
    prefix: bytes = b"\x93" + msgpack.packb(dtype_to_wire(dtype)) + msgpack.packb(array.shape)
    is_inline = array.nbytes <= INLINE_LIMIT_BYTES
    if is_inline:
        prefix += bin_header(array.nbytes)
    return prefix, is_inline, None if dtype == array.dtype else dtype


# -- from extensions ----------------------------------------------------------------------------

# What precedes the bytes of an array -> its shape, dtype and size in bytes, and whether these are
# booleans.
#
# The key ends with the header of the bytes. Should the search find that header's first byte earlier
# (in a shape, say), then the key is not one of these: MessagePack has no two values of which one
# begins with the other.
_known_arrays: dict[bytes, tuple[tuple[int, ...], np.dtype[Any], int, bool]] = {}
_MAX_KNOWN_ARRAYS = 1024
_MAX_KNOWN_BYTES = 64

_ndarray = np.ndarray  # a global is found faster than an attribute


def read_array(
    payload: bytes, place_buffer: Callable[[object, int], tuple[memoryview, int]]
) -> np.ndarray[Any, Any]:
    """Return the array of an extension.

    Args:
        payload: The payload.
        place_buffer: Says where the buffer of this index and size is: in which memory, and where
            in it. Raises a DecodeError where there is none.

    Returns:
        A writable array, in memory of its own or in that of the buffer.

    Raises:
        DecodeError: The payload is none. `msgpack` and NumPy may raise other exceptions.
    """
    array: np.ndarray[Any, Any]
    prefix_size = payload.find(BIN8) + 2
    known = _known_arrays.get(payload[:prefix_size])
    if known is not None and len(payload) == prefix_size + known[2]:
        content = bytearray(payload[prefix_size:])
        if known[3] and content.translate(None, b"\0\1"):
            raise DecodeError(NO_BOOLEAN)
        array = _ndarray(known[0], known[1], content)
        return array
    wire, shape, content = unpack_array(payload)
    dtype, item_bytes, is_checked = layout_from_wire(wire)
    size = count_items(shape) * item_bytes
    if not size and claims_too_much(shape, item_bytes):
        raise DecodeError(f"An array without bytes has the shape {shape}.")
    shape = tuple(shape)
    if type(content) is bytes:
        if len(content) != size:
            raise DecodeError(f"An array of {size} bytes comes with {len(content)} bytes.")
        array = _ndarray(shape, dtype, bytearray(content))
        is_bool = dtype.kind == "b"
        if prefix_size == len(payload) - size <= _MAX_KNOWN_BYTES and is_checked is is_bool:
            if len(_known_arrays) >= _MAX_KNOWN_ARRAYS:
                _known_arrays.clear()
            _known_arrays[payload[:prefix_size]] = shape, dtype, size, is_bool
    else:
        array = _ndarray(shape, dtype, *place_buffer(content, size))
    if is_checked:
        check_values(array)
    return array


def fill_object_array(items: list[Any]) -> np.ndarray[Any, Any]:
    """Return the array of Python objects that an extension's two items describe.

    Raises:
        DecodeError: They are no shape and as many objects as fill it.
    """
    shape, objects = items
    if type(objects) is not list or count_items(shape) != len(objects):
        raise DecodeError("The items of an object array do not fill its shape.")
    if not objects and claims_too_much(shape, np.dtype(object).itemsize):
        raise DecodeError(f"An array without items has the shape {shape}.")
    array: np.ndarray[Any, Any]
    array = np.fromiter(objects, np.dtype(object), len(objects)).reshape(shape)
    return array
