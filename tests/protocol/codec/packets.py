"""Packets by hand, and what is to become of values on their way."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np

from openenv_gym.errors import DecodeError
from openenv_gym.protocol.codec import decode_packet, encode_packet, packet_size


def strict_equal(a: Any, b: Any) -> bool:
    """Whether two values agree in types, dtypes, shapes, order of keys and bits (NaNs included)."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (np.ndarray, np.generic)):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype.hasobject:
            return all(strict_equal(x, y) for x, y in zip(a.flat, b.flat, strict=True))
        return a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return strict_equal(list(a.items()), list(b.items()))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(strict_equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, (set, frozenset)):
        rest = list(b)
        for x in a:
            found = [i for i, y in enumerate(rest) if strict_equal(x, y)]
            if not found:
                return False
            del rest[found[0]]
        return not rest
    if isinstance(a, (float, complex)):
        return repr(a) == repr(b)  # tells 0.0 from -0.0, and takes NaN for NaN
    return bool(a == b)


def to_data(parts: list[bytes | memoryview]) -> memoryview:
    """What a receiver has of a packet."""
    assert packet_size(parts) == sum(len(part) for part in parts)
    return memoryview(bytearray(b"".join(parts)))


def round_trip(value: Any) -> Any:
    """What arrives of a value."""
    (received,) = decode_packet(to_data(encode_packet([value])))
    return received


def head_of(value: Any) -> Any:
    """The head of a packet with this value, as a plain MessagePack library reads it."""
    data = encode_packet([value])[0]
    size = int.from_bytes(data[:4], "little")
    return msgpack.unpackb(bytes(data[4 : 4 + size]), strict_map_key=False)[0]


def packet(head: Any, *rest: bytes) -> memoryview:
    """A packet with this head, bytes or a value for `msgpack`."""
    head = head if isinstance(head, bytes) else msgpack.packb(head)
    return memoryview(bytearray(b"".join([len(head).to_bytes(4, "little"), head, *rest])))


def ext(code: int, payload: Any) -> msgpack.ExtType:
    """An extension with this payload, bytes or a value for `msgpack`."""
    return msgpack.ExtType(code, payload if isinstance(payload, bytes) else msgpack.packb(payload))


def decode(data: bytes | bytearray | memoryview) -> list[Any] | None:
    """The message, or None where there is none; any other exception fails the test."""
    try:
        return decode_packet(memoryview(bytearray(data)))
    except DecodeError:
        return None


def nested(depth: int, wrap: Any, value: Any = 0) -> Any:
    for _ in range(depth):
        value = wrap(value)
    return value
