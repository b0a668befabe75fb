"""Packets: messages as MessagePack, large arrays beside it (docs/protocol.md, sections 2 and 3).

A packet is encoded to a list of buffers, so that a large array goes from the environment's memory
to the socket without being copied; a decoded array is a view of the received packet.

Decoding is safe with any bytes. `msgpack` allocates the lists that a packet claims before it has
seen an item of them, at each level of nesting anew; so `_check_head` walks over a head before
`msgpack` gets it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NoReturn, TypeAlias

import msgpack
import numpy as np
from gymnasium.spaces import GraphInstance

from openenv_gym.errors import DecodeError, EncodeError
from openenv_gym.protocol.values import (
    MAX_DIMENSIONS,
    check_bytes,
    check_empty,
    count_items,
    dtype_to_wire,
    layout_from_wire,
    portable_dtype,
)


__all__ = [
    "ALIGNMENT_BYTES",
    "INLINE_LIMIT_BYTES",
    "MAX_DEPTH",
    "MAX_ITEMS",
    "decode_packet",
    "encode_packet",
    "packet_size",
]

Buffer: TypeAlias = "bytes | memoryview"

INLINE_LIMIT_BYTES = 512
"""Largest array that travels inside the head: copying it costs less than a buffer of its own."""

ALIGNMENT_BYTES = 16
"""Buffers begin at multiples of this."""

MAX_DEPTH = 64
"""Arrays and maps within each other, those inside extensions included."""

MAX_ITEMS = 2**20
"""Items of all arrays and maps of a packet (a pair of a map is two).

A Python object takes some 60 times the byte or two that it is sent as.
"""

_MAX_BIG_INT_BYTES = 1024

_TUPLE = 1
_NDARRAY = 2
_SCALAR = 3
_BIG_INT = 4
_COMPLEX = 5
_SET = 6
_FROZENSET = 7
_OBJECT_ARRAY = 8
_GRAPH = 9

_PADDING = tuple(bytes(size) for size in range(ALIGNMENT_BYTES))

_HEAD_SIZE = struct.Struct("<I")
_COMPLEX_PARTS = struct.Struct("<dd")

_ndarray = np.ndarray
_new_tuple = tuple.__new__
_ExtType = msgpack.ExtType


# ---------------------------------------------------------------------------------------------
# Encoding


def encode_packet(
    message: list[Any] | tuple[Any, ...], *, names: Sequence[Any] | None = None
) -> list[Buffer]:
    """Encode a message.

    Large arrays are not copied: the result holds views of them, which see what is written to the
    arrays later. Whoever keeps a packet beyond the sending joins the parts.

    Args:
        message: The message: plain data, NumPy arrays and scalars, and what else section 3 lists.
        names: Names of the message's items, for errors. In the place of a name may stand None (the
            index is shown) or a sequence with the names of that item's items.

    Returns:
        The parts of the packet, one-dimensional bytes each, to be sent one after the other.

    Raises:
        EncodeError: A value cannot be sent. `field` is its path in the message.
    """
    try:
        encoder = _encoders.pop()
    except IndexError:
        encoder = _Encoder()
    try:
        head = encoder.pack(message if type(message) is list else list(message))
        size = len(head)
        _check_head(head)
    except Exception as error:
        # The encoder is dropped: it may be in the middle of something.
        _raise_encode_error(message, names, error)
    first = _HEAD_SIZE.pack(size) + head
    arrays = encoder.arrays
    if arrays:
        parts: list[Buffer] = [first]
        size += 4
        for array in arrays:
            padding = -size % ALIGNMENT_BYTES
            if padding:
                parts.append(_PADDING[padding])
            size = array.nbytes
            parts.append(array)
        if len(first) % ALIGNMENT_BYTES:
            parts[:2] = [first + parts[1]]  # type: ignore[operator]
        encoder.arrays = []
    else:
        parts = [first]
    if size < _KEPT_BUFFER_BYTES:
        _encoders.append(encoder)
    return parts


def packet_size(parts: Iterable[Buffer]) -> int:
    """Return the size of an encoded packet, in bytes."""
    return sum(map(len, parts))


# Encoders that nobody uses at the moment: taking and giving back are atomic, so that every thread,
# and a call inside another one, has its own.
_encoders: list[_Encoder] = []

# A packer keeps its buffer, which grows to the largest value it packed.
_KEPT_BUFFER_BYTES = 2**18

# (dtype, shape) -> (beginning of the payload, goes inline, dtype to convert to or None).
_Plan: TypeAlias = "tuple[bytes, bool, np.dtype[Any] | None]"
_plans: dict[tuple[Any, ...], _Plan] = {}
_MAX_PLANS = 1024


class _Unsendable(Exception):
    """A value cannot be sent; the text says why and what to do."""


class _Encoder:
    """Packs one message at a time.

    Attributes:
        arrays: Views of the arrays that go out of band, in their order.
        pack: Pack a value.
    """

    __slots__ = ("_depth", "_packers", "arrays", "pack")

    def __init__(self) -> None:
        self.arrays: list[memoryview] = []
        self._depth = 0
        self._packers: list[Callable[[Any], bytes]] = []
        self.pack = self._new_packer()

    def _new_packer(self) -> Callable[[Any], bytes]:
        # strict_types: subclasses, among them np.float64 and tuples, go through `_default`.
        packer = msgpack.Packer(default=self._default, strict_types=True)
        return packer.pack  # type: ignore[no-any-return]

    def _default(self, value: Any) -> Any:
        """Turn a value that MessagePack does not know into one that it does."""
        kind = type(value)
        if kind is _ndarray:
            return self._array(value)
        handler = _HANDLERS.get(kind)
        if handler is None:
            handler = _find_handler(kind)
        return handler(self, value)

    def nest(self, code: int, items: list[Any]) -> Any:
        """Return an extension whose payload is an array of these items."""
        # A packer cannot be used again while it packs.
        pack = self._packers.pop() if self._packers else self._new_packer()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _Unsendable(_TOO_DEEP)
        payload = pack(items)
        self._depth -= 1
        if len(payload) < _KEPT_BUFFER_BYTES:
            self._packers.append(pack)
        return _new_tuple(_ExtType, (code, payload))

    def _array(self, value: np.ndarray[Any, Any]) -> Any:
        key = (value.dtype, value.shape)
        plan = _plans.get(key)
        if plan is None:
            if value.dtype == object:
                return self.nest(_OBJECT_ARRAY, [list(value.shape), value.reshape(-1).tolist()])
            plan = _make_plan(value)
            if len(_plans) >= _MAX_PLANS:
                _plans.clear()
            _plans[key] = plan
        prefix, inline, dtype = plan
        if dtype is not None:
            value = value.astype(dtype)
        if inline:
            return _new_tuple(_ExtType, (_NDARRAY, prefix + value.tobytes()))
        if not value.flags.c_contiguous:
            value = value.copy()
        # The detour by uint8: Python's buffers know no datetime64, and cast no other order.
        self.arrays.append(value.reshape(-1).view(np.uint8).data)
        index = msgpack.packb(len(self.arrays) - 1)
        return _new_tuple(_ExtType, (_NDARRAY, prefix + index))


def _make_plan(value: np.ndarray[Any, Any]) -> _Plan:
    shape = value.shape
    if len(shape) > MAX_DIMENSIONS:
        raise _Unsendable(f"An array has {len(shape)} dimensions, at most {MAX_DIMENSIONS} travel.")
    try:
        dtype = portable_dtype(value.dtype)
        wire = dtype_to_wire(dtype)
        if not value.nbytes:
            check_empty(shape, dtype.itemsize)
    except ValueError as error:
        raise _Unsendable(f"{error}.") from None
    inline = value.nbytes <= INLINE_LIMIT_BYTES
    prefix = b"\x93" + msgpack.packb(wire) + msgpack.packb(list(shape))
    if inline:
        prefix += _bin_header(value.nbytes)
    return prefix, inline, None if dtype == value.dtype else dtype


def _bin_header(size: int) -> bytes:
    if size < 2**8:
        return b"\xc4" + size.to_bytes(1, "big")
    if size < 2**16:
        return b"\xc5" + size.to_bytes(2, "big")
    return b"\xc6" + size.to_bytes(4, "big")


def _scalar(encoder: _Encoder, value: np.generic) -> Any:
    kind = type(value)
    prefix = _scalar_prefixes.get(kind)
    if prefix is not None:
        return _new_tuple(_ExtType, (_SCALAR, prefix + value.tobytes()))
    if kind is np.object_:
        raise _Unsendable("A NumPy object scalar cannot be sent.")
    if isinstance(value, np.str_):
        # Not by way of an array, which would drop NULs at the end.
        data = str.encode(value, "utf-32-le", "surrogatepass")
        wire: str | list[Any] = f"<U{len(value)}"
    elif isinstance(value, np.bytes_):
        data = bytes(value)
        wire = f"|S{len(value)}"
    else:
        try:
            dtype = portable_dtype(value.dtype)
            wire = dtype_to_wire(dtype)
        except ValueError as error:
            raise _Unsendable(f"{error}.") from None
        data = np.asarray(value).astype(dtype).tobytes()
    payload = b"\x92" + msgpack.packb(wire) + _bin_header(len(data)) + data
    return _new_tuple(_ExtType, (_SCALAR, payload))


def _is_native_little(dtype: np.dtype[Any]) -> bool:
    return dtype == dtype.newbyteorder("<")


_scalar_prefixes: dict[type, bytes] = {
    dtype.type: b"\x92" + msgpack.packb(dtype.str) + _bin_header(dtype.itemsize)
    for dtype in map(np.dtype, "?bhilqBHILQefdFD")
    if _is_native_little(dtype)
}


def _int(encoder: _Encoder, value: int) -> Any:
    value = int.__index__(value)
    if -(2**63) <= value < 2**64:
        return value
    # A bit for the sign.
    size = value.bit_length() // 8 + 1 if value > 0 else (~value).bit_length() // 8 + 1
    if size > _MAX_BIG_INT_BYTES:
        raise _Unsendable(f"An integer takes {size} bytes, at most {_MAX_BIG_INT_BYTES} travel.")
    return _new_tuple(_ExtType, (_BIG_INT, value.to_bytes(size, "big", signed=True)))


def _complex(encoder: _Encoder, value: complex) -> Any:
    return _new_tuple(_ExtType, (_COMPLEX, _COMPLEX_PARTS.pack(value.real, value.imag)))


def _graph(encoder: _Encoder, value: GraphInstance) -> Any:
    return encoder.nest(_GRAPH, [value.nodes, value.edges, value.edge_links])


def _enum(encoder: _Encoder, value: Enum) -> Any:
    return _packable(encoder, value.value)


def _model(encoder: _Encoder, value: Any) -> Any:
    return _packable(encoder, value.model_dump())


def _subarray(encoder: _Encoder, value: np.ndarray[Any, Any]) -> Any:
    if isinstance(value, np.ma.MaskedArray):
        raise _Unsendable("A masked array cannot be sent. Fill it, or send data and mask.")
    return encoder._array(np.asarray(value))


def _packable(encoder: _Encoder, value: Any) -> Any:
    """Return what `msgpack` packs itself: it asks only once about a value."""
    kind = type(value)
    if kind in (dict, list, str, float, bool, bytes) or value is None:
        return value
    return _int(encoder, value) if kind is int else encoder._default(value)


_HANDLERS: dict[type, Callable[[_Encoder, Any], Any]] = {
    tuple: lambda encoder, value: encoder.nest(_TUPLE, list(value)),
    set: lambda encoder, value: encoder.nest(_SET, list(value)),
    frozenset: lambda encoder, value: encoder.nest(_FROZENSET, list(value)),
    GraphInstance: _graph,
    int: _int,
    complex: _complex,
    **dict.fromkeys(_scalar_prefixes, _scalar),
}

# Looked through in this order for what is not listed above: np.float64 is a float, an Enum may be
# a string.
_FALLBACKS: tuple[tuple[type, Callable[[_Encoder, Any], Any]], ...] = (
    (np.ndarray, _subarray),
    (np.generic, _scalar),
    (Enum, _enum),
    (GraphInstance, _graph),
    (tuple, _HANDLERS[tuple]),
    (list, lambda encoder, value: list(value)),
    (set, _HANDLERS[set]),
    (frozenset, _HANDLERS[frozenset]),
    (Mapping, lambda encoder, value: dict(value)),
    (str, lambda encoder, value: str.__str__(value)),
    (int, _int),
    (float, lambda encoder, value: float.__float__(value)),
    (complex, lambda encoder, value: _complex(encoder, complex.__complex__(value))),
    (bytes, lambda encoder, value: bytes(memoryview(value))),
    (bytearray, lambda encoder, value: bytes(value)),
)


def _find_handler(kind: type) -> Callable[[_Encoder, Any], Any]:
    for base, handler in _FALLBACKS:
        if issubclass(kind, base):
            return handler
    if callable(getattr(kind, "model_dump", None)):
        return _model
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    if hasattr(kind, "__dataclass_fields__"):
        hint = "Convert it with dataclasses.asdict."
    elif hasattr(kind, "__array__"):
        hint = "Convert it with numpy.asarray."
    elif issubclass(kind, Iterable):
        hint = "Convert it to a list or a tuple."
    else:
        hint = "Send plain data, NumPy arrays or a Pydantic model."
    raise _Unsendable(f"A {name} cannot be sent. {hint}")


_TOO_DEEP = (
    f"It is nested more than {MAX_DEPTH} levels deep, or contains itself. Flatten it, or send text."
)


def _raise_encode_error(
    message: Iterable[Any], names: Sequence[Any] | None, error: Exception
) -> NoReturn:
    """Raise the error for a message that could not be encoded, naming the value to blame."""
    for index, item in enumerate(message):
        name = names[index] if names is not None and index < len(names) else None
        if isinstance(name, (list, tuple)) and type(item) in (list, tuple):
            inner = [(name[i] if i < len(name) else f"[{i}]", v) for i, v in enumerate(item)]
        else:
            inner = [(name if isinstance(name, str) else f"[{index}]", item)]
        for path, value in inner:
            _blame(path, value, 2)
    if isinstance(error, _Unsendable):
        raise EncodeError(str(error)) from None
    raise EncodeError(f"The message cannot be sent: {error}") from error


def _blame(path: str, value: Any, depth: int) -> None:
    """Raise an EncodeError where the value, or one inside it, cannot be sent."""
    kind = type(value)
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, np.ndarray) and value.dtype == object:
        children = [
            (f"{path}[{', '.join(map(str, index))}]", item) for index, item in np.ndenumerate(value)
        ]
    elif isinstance(value, Mapping) or callable(getattr(kind, "model_dump", None)):
        mapping = dict(value if isinstance(value, Mapping) else value.model_dump())
        children = []
        for key, item in mapping.items():
            children.append((f"{path}[{_short(key)}] (the key)", key))
            children.append((f"{path}[{_short(key)}]", item))
    elif isinstance(value, GraphInstance):
        children = [(f"{path}.{name}", getattr(value, name)) for name in GraphInstance._fields]
    elif isinstance(value, (list, tuple)):
        children = [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    elif isinstance(value, (set, frozenset)):
        children = [(f"{path}[{_short(item)}]", item) for item in value]
    else:
        try:
            _Encoder().pack([value])
        except Exception as error:
            text = str(error) if isinstance(error, _Unsendable) else f"It cannot be sent: {error}."
            raise EncodeError(
                f"{path} (type {kind.__qualname__}): {text}", field=path, data={"type": str(kind)}
            ) from None
        return
    if depth > MAX_DEPTH:
        path = path if len(path) <= 60 else f"{path[:60]}..."
        raise EncodeError(f"{path} (type {kind.__qualname__}): {_TOO_DEEP}", field=path)
    for child_path, child in children:
        _blame(child_path, child, depth + 1)


def _short(key: object) -> str:
    text = repr(key)
    return text if len(text) <= 40 else f"{text[:40]}..."


# ---------------------------------------------------------------------------------------------
# Decoding


def decode_packet(data: memoryview) -> list[Any]:
    """Decode a packet.

    Args:
        data: The packet, one-dimensional writable bytes. Large arrays in the result are views of
            this memory (each of a part of its own), so it belongs to the message from now on.

    Returns:
        The message.

    Raises:
        DecodeError: The bytes are not a packet, or hold a value that section 3 does not know.
    """
    try:
        (size,) = _HEAD_SIZE.unpack_from(data)
        end = 4 + size
        head = bytes(data[4:end])
        if len(head) != size:
            raise DecodeError(
                f"A packet of {len(data)} bytes claims to have a head of {size} bytes."
            )
        unsafe_keys = _check_head(head)
        decoder = _Decoder(data, end, unsafe_keys)
        message = decoder.unpack(head)
        if type(message) is not list:
            raise DecodeError("A packet does not hold an array.")
        rest = len(data) - decoder.position
        if rest and (rest >= ALIGNMENT_BYTES or rest != -decoder.position % ALIGNMENT_BYTES):
            raise DecodeError(f"A packet has {rest} bytes that no array refers to.")
    except DecodeError:
        raise
    except Exception as error:
        # Whatever msgpack, NumPy or Python found wrong with the bytes.
        text = str(error) or type(error).__name__
        raise DecodeError(f"The bytes are not a packet of this protocol: {text}.") from None
    return message


# Nested extensions up to this are unpacked by msgpack, which copies the payload and takes 41 KB of
# stack for each level; what lies deeper is unpacked here.
_FAST_EXTENSIONS = 4


class _Decoder:
    """Unpacks the head of one packet.

    Attributes:
        position: End of the last buffer, counted from the start of the packet, in bytes.
    """

    __slots__ = ("_buffers", "_data", "_depth", "_pairs_hook", "position")

    def __init__(self, data: memoryview, position: int, unsafe_keys: bool) -> None:
        self.position = position
        self._data = data
        self._buffers = 0
        self._depth = 0
        self._pairs_hook = _make_dict if unsafe_keys else None

    def unpack(self, payload: Buffer) -> Any:
        """Unpack exactly one value."""
        if self._depth <= _FAST_EXTENSIONS:
            return msgpack.unpackb(
                payload,
                strict_map_key=False,
                ext_hook=self._extension,
                object_pairs_hook=self._pairs_hook,
            )
        view = memoryview(payload)
        value, position = self._read(view, 0)
        if position != len(view):
            raise DecodeError("An extension value has bytes beyond its end.")
        return value

    def _extension(self, code: int, payload: Buffer) -> Any:
        if code == _NDARRAY:
            return self._array(payload)
        if code == _SCALAR:
            return self._scalar(payload)
        if code == _TUPLE:
            return tuple(self._items(payload))
        if code == _BIG_INT:
            return _read_big_int(bytes(payload))
        if code == _COMPLEX:
            return complex(*_COMPLEX_PARTS.unpack(payload))
        if code == _SET:
            return set(_check_keys(self._items(payload)))
        if code == _FROZENSET:
            return frozenset(_check_keys(self._items(payload)))
        if code == _OBJECT_ARRAY:
            return self._object_array(payload)
        if code == _GRAPH:
            nodes, edges, edge_links = self._items(payload)
            return GraphInstance(nodes, edges, edge_links)
        raise DecodeError(f"The extension type {code} is unknown.")

    def _items(self, payload: Buffer) -> list[Any]:
        self._depth += 1
        items = self.unpack(payload)
        self._depth -= 1
        if type(items) is not list:
            raise DecodeError("The payload of an extension is not an array.")
        return items

    def _array(self, payload: Buffer) -> np.ndarray[Any, Any]:
        wire, shape, content = self._items(payload)
        dtype, item_bytes, checked = layout_from_wire(wire)
        size = count_items(shape) * item_bytes
        if not size:
            check_empty(shape, item_bytes)
        if type(content) is bytes:
            if len(content) != size:
                raise DecodeError(f"An array of {size} bytes comes with {len(content)} bytes.")
            array: np.ndarray[Any, Any] = _ndarray(tuple(shape), dtype, bytearray(content))
        else:
            if type(content) is not int or content != self._buffers:
                raise DecodeError(
                    f"An array refers to buffer {content!r:.40}, not to the next one."
                )
            start = self.position + -self.position % ALIGNMENT_BYTES
            if start + size > len(self._data):
                raise DecodeError(f"An array of {size} bytes goes beyond the end of the packet.")
            array = _ndarray(tuple(shape), dtype, self._data, start)
            self._buffers += 1
            self.position = start + size
        if checked:
            check_bytes(array)
        return array

    def _scalar(self, payload: Buffer) -> Any:
        wire, content = self._items(payload)
        dtype, item_bytes, checked = layout_from_wire(wire)
        if type(content) is not bytes or len(content) != item_bytes:
            raise DecodeError("A NumPy scalar does not come with the bytes of its dtype.")
        if dtype.kind == "U":
            return np.str_(content.decode("utf-32-le", "surrogatepass"))
        if dtype.kind == "S":
            return np.bytes_(content)
        array: np.ndarray[Any, Any] = _ndarray((), dtype, bytearray(content))
        if checked:
            check_bytes(array)
        return array[()]

    def _object_array(self, payload: Buffer) -> np.ndarray[Any, Any]:
        shape, items = self._items(payload)
        if type(items) is not list or count_items(shape) != len(items):
            raise DecodeError("The items of an object array do not fill its shape.")
        check_empty(shape, 8)
        return np.fromiter(items, object, len(items)).reshape(shape)

    def _read(self, view: memoryview, position: int) -> tuple[Any, int]:
        """Read a value, and return it and the position behind it.

        What `msgpack.unpackb` does, without its copies and its use of the stack. Claims of sizes
        and the depth have been checked, or the head is a small one.
        """
        byte = view[position]
        position += 1
        if byte < 0x80:
            return byte, position
        if byte >= 0xE0:
            return byte - 0x100, position
        if byte < 0xC0:
            kind = "map" if byte < 0x90 else "array" if byte < 0xA0 else "str"
            size = byte & (0x0F if byte < 0xA0 else 0x1F)
        else:
            kind, size = _FORMATS[byte]
            content = view[position : position + size]
            if len(content) != size:
                raise DecodeError("A value goes beyond the end of the packet.")
            position += size
            if type(kind) is not str:
                return kind(content), position
            if not kind.startswith("fixext"):
                size = int.from_bytes(content, "big")
            else:
                size = int(kind[6:])
        if kind == "array":
            items = []
            for _ in range(size):
                item, position = self._read(view, position)
                items.append(item)
            return items, position
        if kind == "map":
            pairs = []
            for _ in range(size):
                key, position = self._read(view, position)
                item, position = self._read(view, position)
                pairs.append((key, item))
            return _make_dict(pairs), position
        code = 0
        if "ext" in kind:
            code = view[position]
            position += 1
        content = view[position : position + size]
        if len(content) != size:
            raise DecodeError("A value goes beyond the end of the packet.")
        position += size
        if kind == "str":
            return str(content, "utf-8"), position
        if kind == "bin":
            return bytes(content), position
        return self._extension(code, content), position


def _reader(form: str) -> Callable[[memoryview], Any]:
    unpack = struct.Struct(form).unpack
    return lambda content: unpack(content)[0]


# Byte -> how to read a value of fixed size, or what it is the beginning of; and how many bytes that
# takes. https://github.com/msgpack/msgpack/blob/master/spec.md, section "Formats".
_FORMATS: dict[int, tuple[Any, int]] = {
    0xC0: (lambda content: None, 0),
    0xC2: (lambda content: False, 0),
    0xC3: (lambda content: True, 0),
    0xC4: ("bin", 1),
    0xC5: ("bin", 2),
    0xC6: ("bin", 4),
    0xC7: ("ext", 1),
    0xC8: ("ext", 2),
    0xC9: ("ext", 4),
    0xCA: (_reader(">f"), 4),
    0xCB: (_reader(">d"), 8),
    0xCC: (_reader(">B"), 1),
    0xCD: (_reader(">H"), 2),
    0xCE: (_reader(">I"), 4),
    0xCF: (_reader(">Q"), 8),
    0xD0: (_reader(">b"), 1),
    0xD1: (_reader(">h"), 2),
    0xD2: (_reader(">i"), 4),
    0xD3: (_reader(">q"), 8),
    0xD4: ("fixext1", 0),
    0xD5: ("fixext2", 0),
    0xD6: ("fixext4", 0),
    0xD7: ("fixext8", 0),
    0xD8: ("fixext16", 0),
    0xD9: ("str", 1),
    0xDA: ("str", 2),
    0xDB: ("str", 4),
    0xDC: ("array", 2),
    0xDD: ("array", 4),
    0xDE: ("map", 2),
    0xDF: ("map", 4),
}


def _read_big_int(payload: bytes) -> int:
    if not 1 <= len(payload) <= _MAX_BIG_INT_BYTES:
        raise DecodeError(f"A big integer has {len(payload)} bytes.")
    value = int.from_bytes(payload, "big", signed=True)
    if len(payload) > 1 and value == int.from_bytes(payload[1:], "big", signed=True):
        raise DecodeError("A big integer is not in its shortest form.")
    return value


# Python randomises the hashes of str and bytes, and 64-bit integers and floats collide a few times
# at most; but anybody can compute tuples, frozensets, complex numbers and big integers that all
# have the same hash, and n of them take n * n steps to put in a set. As many as this do not matter.
_MAX_COLLISIONS = 256


def _check_keys(keys: list[Any]) -> list[Any]:
    """Refuse keys that were made to collide."""
    if len(keys) - _MAX_COLLISIONS > 0 and (
        len(keys) - len({hash(key) for key in keys}) > _MAX_COLLISIONS
    ):
        raise DecodeError("The keys of a set or map have the same hashes.")
    return keys


def _make_dict(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    _check_keys([key for key, _ in pairs])
    return dict(pairs)


# Heads up to this may be given to msgpack with fewer than `MAX_DEPTH` bytes that could begin an
# array or a map: all their claims together are then at most 64 * 512 pointers.
_SMALL_HEAD_BYTES = 512

# What could begin an array or a map; all other bytes.
_ARRAYS_AND_MAPS = bytes([*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF])
_OTHER_BYTES = bytes(set(range(256)) - set(_ARRAYS_AND_MAPS))

# Size of a value, by its first byte, where that tells it: 0 for all others.
_SIZES = bytes(
    1
    if byte < 0x80 or byte >= 0xE0 or byte in (0xC0, 0xC2, 0xC3)
    else byte - 0xA0 + 1
    if 0xA0 <= byte < 0xC0
    else {0xCA: 5, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9}
    .get(byte, 0)
    for byte in range(256)
)  # fmt: skip

# Extensions that begin with an array.
_NESTING = frozenset((_TUPLE, _NDARRAY, _SCALAR, _SET, _FROZENSET, _OBJECT_ARRAY, _GRAPH))
_EXTENSIONS = _NESTING | {_BIG_INT, _COMPLEX}


def _check_head(head: bytes) -> bool:
    """Refuse a head that would cost more memory or nesting than it may.

    Returns:
        Whether there are so many keys that can be made to collide that it matters.

    Raises:
        DecodeError: The head is not well-formed, nests too deep or has too many items.
    """
    size = len(head)
    if size <= _SMALL_HEAD_BYTES and (
        (size <= MAX_DEPTH or len(head.translate(None, _OTHER_BYTES)) <= MAX_DEPTH)
        # msgpack makes a Timestamp of the extension type -1, without asking us.
        and b"\xff" not in head
    ):
        return False
    return _walk(head)


def _walk(head: bytes) -> bool:
    sizes = _SIZES
    # The innermost array or map: how many of its items are to come. Around it, `outer`: the same,
    # and where the extension ends whose payload the inner array is (-1 if it is none).
    left = 1
    payload_end = -1
    outer: list[tuple[int, int]] = []
    position = 0
    end = len(head)
    items = 0
    hashable = 0
    while True:
        while left:
            byte = head[position]
            left -= 1
            size = sizes[byte]
            if size:
                position += size
                continue
            if byte < 0xA0 or byte >= 0xDC:
                new_end = -1
            elif 0xC4 <= byte <= 0xC6 or byte >= 0xD9:
                width = 1 << (byte - 0xC4 if byte < 0xD9 else byte - 0xD9)
                position += 1 + width
                position += int.from_bytes(head[position - width : position], "big")
                continue
            elif byte >= 0xC7:
                if byte < 0xD4:
                    width = 1 << (byte - 0xC7)
                    position += 1 + width
                    size = int.from_bytes(head[position - width : position], "big")
                else:
                    position += 1
                    size = 1 << (byte - 0xD4)
                code = head[position]
                position += 1
                if code not in _NESTING:
                    if code not in _EXTENSIONS:
                        raise DecodeError(f"The extension type {code} is unknown.")
                    hashable += 1
                    position += size
                    continue
                hashable += code != _NDARRAY
                new_end = position + size
                byte = head[position]
                if not (0x90 <= byte < 0xA0 or 0xDC <= byte <= 0xDD):
                    raise DecodeError("The payload of an extension is not an array.")
            else:
                raise DecodeError("The byte 0xc1 begins no value.")
            # An array or a map.
            position += 1
            if byte < 0xA0:
                count = byte & 0x0F
                is_map = byte < 0x90
            else:
                width = 4 if byte & 1 else 2
                count = int.from_bytes(head[position : position + width], "big")
                position += width
                is_map = byte >= 0xDE
            if is_map:
                count *= 2
            if count > end - position:
                raise DecodeError(f"An array or map of {count} items goes beyond the packet.")
            items += count
            if items > MAX_ITEMS:
                raise DecodeError(f"A packet has more than {MAX_ITEMS} items.")
            outer.append((left, payload_end))
            if len(outer) > MAX_DEPTH:
                raise DecodeError(f"Values are nested more than {MAX_DEPTH} levels deep.")
            left, payload_end = count, new_end
        if payload_end not in (-1, position):
            raise DecodeError("The payload of an extension does not end with its array.")
        if not outer:
            break
        left, payload_end = outer.pop()
    if position != end:
        raise DecodeError("The head of a packet does not end with its value.")
    return hashable > _MAX_COLLISIONS
