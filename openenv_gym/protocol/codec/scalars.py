"""NumPy's scalars, complex numbers and big integers: to extensions and back."""

from __future__ import annotations

import struct
from typing import Any

import msgpack
import numpy as np

from openenv_gym.errors import DecodeError, EncodeError
from openenv_gym.protocol.codec.dtypes import (
    check_values,
    dtype_to_wire,
    layout_from_wire,
    portable_dtype,
)
from openenv_gym.protocol.codec.format import (
    BIG_INT,
    BIN8,
    COMPLEX,
    MAX_BIG_INT_BYTES,
    SCALAR,
    bin_header,
    extension,
    unpack_array,
)


__all__ = [
    "NUMBERS",
    "read_big_int",
    "read_complex",
    "read_scalar",
    "write_complex",
    "write_int",
    "write_number",
    "write_scalar",
]

_TWO_DOUBLES = struct.Struct("<dd")

# NumPy's numbers and booleans, where the machine has the byte order that is sent. (Elsewhere
# `write_scalar` writes them, by way of an array.)
_DTYPES: dict[type, np.dtype[Any]] = {
    dtype.type: dtype
    for dtype in map(np.dtype, "?bhilqBHILQefdFD")
    if dtype == dtype.newbyteorder("<")
}

# What is sent of them before their bytes.
_PREFIXES: dict[type, bytes] = {
    kind: b"\x92" + msgpack.packb(dtype.str) + bin_header(dtype.itemsize)
    for kind, dtype in _DTYPES.items()
}

# The same in the other direction.
_DTYPES_BY_PREFIX: dict[bytes, np.dtype[Any]] = {
    prefix: np.dtype(_DTYPES[kind].str)  # of C's long and long long, the usual one
    for kind, prefix in _PREFIXES.items()
    if kind is not np.bool_  # of its bytes, only two are valid
}

NUMBERS = frozenset(_PREFIXES)
"""The types that `write_number` takes."""


def write_number(value: np.generic) -> msgpack.ExtType:
    """Return the extension for one of NumPy's `NUMBERS`."""
    return extension(SCALAR, _PREFIXES[type(value)] + value.tobytes())


def write_scalar(value: np.generic) -> msgpack.ExtType:
    """Return the extension for any of NumPy's scalars.

    Raises:
        EncodeError: The protocol does not carry its dtype.
    """
    wire: str | list[Any]
    if isinstance(value, np.str_):
        # Not by way of an array, which would drop NULs at the end.
        wire, data = f"<U{len(value)}", value.encode("utf-32-le", "surrogatepass")
    elif isinstance(value, np.bytes_):
        wire, data = f"|S{len(value)}", bytes(memoryview(value))
    else:
        dtype = portable_dtype(value.dtype)
        wire, data = dtype_to_wire(dtype), np.asarray(value).astype(dtype).tobytes()
    return extension(SCALAR, b"\x92" + msgpack.packb(wire) + msgpack.packb(data))


def read_scalar(payload: bytes) -> Any:
    """Return the scalar of an extension.

    Raises:
        DecodeError: The payload is none. `msgpack` and NumPy may raise other exceptions.
    """
    prefix_size = payload.find(BIN8) + 2
    number = _DTYPES_BY_PREFIX.get(payload[:prefix_size])
    if number is not None and len(payload) == prefix_size + number.itemsize:
        return np.frombuffer(payload, number, 1, prefix_size)[0]
    wire, content = unpack_array(payload)
    dtype, item_bytes, is_checked = layout_from_wire(wire)
    if type(content) is not bytes or len(content) != item_bytes:
        raise DecodeError("A NumPy scalar does not come with as many bytes as its dtype has.")
    if dtype.kind == "U":
        return np.str_(content.decode("utf-32-le", "surrogatepass"))
    if dtype.kind == "S":
        return np.bytes_(content)
    array: np.ndarray[Any, Any] = np.ndarray((), dtype, bytearray(content))
    if is_checked:
        check_values(array)
    return array[()]


def write_int(value: int) -> int | msgpack.ExtType:
    """Return the extension for an integer, or the plain one where it is not big.

    Raises:
        EncodeError: It is too big.
    """
    value = int.__index__(value)
    if -(2**63) <= value < 2**64:
        return value
    size = (value if value >= 0 else ~value).bit_length() // 8 + 1  # one bit more, for the sign
    if size > MAX_BIG_INT_BYTES:
        raise EncodeError(
            f"an integer takes {size} bytes, and at most {MAX_BIG_INT_BYTES} can be sent",
            hint="Send it as text.",
        )
    return extension(BIG_INT, value.to_bytes(size, "big", signed=True))


def read_big_int(payload: bytes) -> int:
    """Return the integer of an extension.

    Raises:
        DecodeError: It has no bytes, or too many.
    """
    if not 1 <= len(payload) <= MAX_BIG_INT_BYTES:
        raise DecodeError(f"A big integer has {len(payload)} bytes.")
    # The first byte must say more than the sign, which the first bit of the second one says, too.
    if len(payload) > 1 and payload[0] == (0xFF if payload[1] & 0x80 else 0):
        raise DecodeError("A big integer is not in its shortest form.")
    return int.from_bytes(payload, "big", signed=True)


def write_complex(value: complex) -> msgpack.ExtType:
    """Return the extension for a complex number."""
    return extension(COMPLEX, _TWO_DOUBLES.pack(value.real, value.imag))


def read_complex(payload: bytes) -> complex:
    """Return the complex number of an extension; `struct.error` where it has another size."""
    return complex(*_TWO_DOUBLES.unpack(payload))
