"""`decode_packet`: bytes that were received, to a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
from gymnasium.spaces import GraphInstance

from openenv_gym.errors import DecodeError
from openenv_gym.protocol.codec.arrays import fill_object_array, read_array
from openenv_gym.protocol.codec.format import (
    ALIGNMENT_BYTES,
    BIG_INT,
    BUFFERS_ELSEWHERE,
    COMPLEX,
    FROZENSET,
    GRAPH,
    HEAD_START,
    MAX_DEPTH,
    NDARRAY,
    OBJECT_ARRAY,
    SCALAR,
    SET,
    TUPLE,
    unpack_head_size,
)
from openenv_gym.protocol.codec.head import MARKER, flatten_head, is_harmless
from openenv_gym.protocol.codec.scalars import read_big_int, read_complex, read_scalar


__all__ = ["decode_packet"]

# A global is found faster than an attribute.
_unpackb = msgpack.unpackb

# `unpackb` takes 41 KB of the C stack, and copies the payloads of extensions: so many of its calls
# may be within each other.
_MAX_NESTED_CALLS = 4

# For up to as many keys their hashes do not matter (see `_check_keys`).
_MANY_KEYS = 256


def decode_packet(
    data: memoryview, shared: memoryview | None = None, landing: memoryview | None = None
) -> list[Any]:
    """Decode a packet.

    Args:
        data: The packet, one-dimensional writable bytes. Large arrays in the result are views of
            this memory, each of its own part, so from now on it belongs to the message.
        shared: The memory in which buffers may be instead; they are copied out of it.
        landing: One-dimensional writable bytes, where the first of those buffers goes that has as
            many bytes; the others get memory of their own.

    Returns:
        The message.

    Raises:
        DecodeError: The bytes are not a packet, or hold what section 3 does not know.
    """
    try:
        (size,) = unpack_head_size(data)
        elsewhere = size & BUFFERS_ELSEWHERE
        size &= ~BUFFERS_ELSEWHERE
        start = HEAD_START + size
        head = data[HEAD_START:start].tobytes()
        if len(head) != size:
            raise DecodeError(f"A packet of {len(data)} bytes claims a head of {size} bytes.")
        decoder: _Decoder
        if elsewhere:
            if shared is None:
                raise DecodeError("A packet's buffers are in shared memory, and there is none.")
            decoder = _SharedDecoder(shared, landing)
        else:
            decoder = _Decoder(data, start)
        # Most heads are so small that there is nothing to ask.
        if (size <= MAX_DEPTH and 0xFF not in head) or is_harmless(head):
            message = decoder.unpack(head)
        else:
            message = decoder.unpack_flat(head)
        if type(message) is not list:
            raise DecodeError("The head of a packet is not an array.")
        end = start if elsewhere else decoder.end
        if len(data) != end and len(data) != end + -end % ALIGNMENT_BYTES:
            raise DecodeError(f"A packet has {len(data) - end} bytes that no array refers to.")
    except DecodeError:
        raise
    except Exception as error:
        # Whatever msgpack, NumPy or Python itself found wrong with the bytes.
        raise DecodeError(
            f"The bytes are not a packet of this protocol: {type(error).__name__}: {error}"
        ) from None
    return message


class _Decoder:
    """Unpacks the head of one packet.

    Attributes:
        end: Where the last buffer ends that an array has referred to, counted from the start of the
            packet, in bytes.
    """

    __slots__ = ("_buffers", "_calls", "_data", "end")

    def __init__(self, data: memoryview, end: int) -> None:
        self.end = end
        self._data = data
        self._buffers = 0
        self._calls = 0

    def unpack(self, packed: bytes) -> Any:
        """Unpack one value that is small."""
        return _unpackb(packed, strict_map_key=False, ext_hook=self._extension)

    def unpack_flat(self, packed: bytes) -> Any:
        """Unpack one value of any size and depth."""
        flat, largest_map = flatten_head(packed)
        return _unpackb(
            flat,
            strict_map_key=False,
            ext_hook=self._extension_or_marker,
            list_hook=None if flat is packed else _fill_container,
            object_pairs_hook=_make_dict if largest_map > _MANY_KEYS else None,
        )

    def _extension(self, code: int, payload: bytes) -> Any:
        """Return the value of an extension of this type."""
        if code == NDARRAY:
            return read_array(payload, self._place_buffer)
        if code == SCALAR:
            return read_scalar(payload)
        make = _CONTAINERS.get(code)
        if make is not None:
            return make(self._items(payload))
        if code == BIG_INT:
            return read_big_int(payload)
        if code == COMPLEX:
            return read_complex(payload)
        raise DecodeError(f"The extension type {code} is unknown.")

    def _items(self, payload: bytes) -> list[Any]:
        if self._calls < _MAX_NESTED_CALLS:
            self._calls += 1
            items = self.unpack(payload)
            self._calls -= 1
        else:
            items = self.unpack_flat(payload)
        if type(items) is not list:
            raise DecodeError("The payload of an extension is not an array.")
        return items

    def _extension_or_marker(self, code: int, payload: bytes) -> Any:
        return _MARKERS[payload] if code == MARKER else self._extension(code, payload)

    def _place_buffer(self, index: object, size: int) -> tuple[memoryview, int]:
        """Return where the next buffer is, which an array must refer to: memory and offset."""
        if type(index) is not int or index != self._buffers:
            raise DecodeError(f"An array does not refer to buffer {self._buffers}, the next.")
        start = self.end + -self.end % ALIGNMENT_BYTES
        if start + size > len(self._data):
            raise DecodeError(f"An array of {size} bytes goes beyond the end of its packet.")
        self._buffers += 1
        self.end = start + size
        return self._data, start


class _SharedDecoder(_Decoder):
    """Unpacks the head of a packet whose buffers are in shared memory.

    The other side may change that memory at any time, so what is checked is a copy.
    """

    __slots__ = ("_landing",)

    def __init__(self, shared: memoryview, landing: memoryview | None) -> None:
        super().__init__(shared, 0)
        self._landing = landing

    def _place_buffer(self, index: object, size: int) -> tuple[memoryview, int]:
        shared, start = super()._place_buffer(index, size)
        memory = self._landing
        if memory is not None and len(memory) == size:
            self._landing = None
        else:
            memory = np.empty(size, np.uint8).data
        memory[:] = shared[start : start + size]
        return memory, 0


# -- values that hold others --------------------------------------------------------------------


def _make_set(items: list[Any]) -> set[Any]:
    _check_keys(items)
    return set(items)


def _make_frozenset(items: list[Any]) -> frozenset[Any]:
    _check_keys(items)
    return frozenset(items)


def _make_graph(items: list[Any]) -> GraphInstance:
    nodes, edges, edge_links = items
    return GraphInstance(nodes, edges, edge_links)


def _make_dict(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    _check_keys([key for key, _ in pairs])
    return dict(pairs)


_CONTAINERS: dict[int, Callable[[list[Any]], Any]] = {
    TUPLE: tuple,
    SET: _make_set,
    FROZENSET: _make_frozenset,
    OBJECT_ARRAY: fill_object_array,
    GRAPH: _make_graph,
}


class _Marker:
    """Stands first in the list that `flatten_head` made of an extension."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[list[Any]], Any]) -> None:
        self.make = make


_MARKERS = {bytes((code,)): _Marker(make) for code, make in _CONTAINERS.items()}


def _fill_container(items: list[Any]) -> Any:
    if items and type(items[0]) is _Marker:
        return items.pop(0).make(items)
    return items


def _check_keys(keys: list[Any]) -> None:
    """Refuse keys that were made to have the same hash.

    Python salts the hashes of str and bytes, and of 64-bit integers and floats only a few have the
    same. But anybody can compute any number of tuples, frozensets, complex numbers or big integers
    with one hash; to put n of them into a set takes n * n comparisons.

    Args:
        keys: Items of a set or keys of a map, before they are put into one.

    Raises:
        DecodeError: More than `_MANY_KEYS` have a hash that an earlier one has.
        TypeError: One is not hashable.
    """
    if len(keys) > _MANY_KEYS and len(keys) - len({hash(key) for key in keys}) > _MANY_KEYS:
        raise DecodeError("The keys of a map, or the items of a set, have the same hashes.")
