"""Packets: messages as MessagePack, large arrays beside it (docs/protocol.md, sections 2 and 3).

A packet is encoded to a list of buffers, so that a large array goes from the environment's memory
to the socket without being copied; a decoded array is a view of the received packet.
"""

from __future__ import annotations

import reprlib
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NoReturn, TypeAlias

import msgpack
import numpy as np
from gymnasium.spaces import GraphInstance

from openenv_gym.errors import DecodeError, EncodeError
from openenv_gym.protocol.values import (
    BIG_INT,
    COMPLEX,
    FROZENSET,
    GRAPH,
    MAX_BIG_INT_BYTES,
    MAX_DEPTH,
    MAX_DIMENSIONS,
    NDARRAY,
    OBJECT_ARRAY,
    SCALAR,
    SET,
    SIZED_FORMATS,
    TUPLE,
    Format,
    check_array,
    check_empty_array,
    check_head,
    check_keys,
    count_items,
    dtype_to_wire,
    layout_from_wire,
    portable_dtype,
)


__all__ = [
    "ALIGNMENT_BYTES",
    "INLINE_LIMIT_BYTES",
    "decode_packet",
    "encode_packet",
    "packet_size",
]

Buffer: TypeAlias = "bytes | memoryview"

INLINE_LIMIT_BYTES = 512
"""Largest array that travels inside the head: copying it costs less than a buffer of its own."""

ALIGNMENT_BYTES = 16
"""Buffers begin at multiples of this, counted from the start of the packet."""

_PADDING = tuple(bytes(size) for size in range(ALIGNMENT_BYTES))

_HEAD_SIZE = struct.Struct("<I")
_TWO_DOUBLES = struct.Struct("<dd")

_BIN8 = 0xC4  # first byte of a bin of up to 255 bytes

# Looked up as globals, which is faster than as attributes. The class's own __new__ checks its
# arguments, at thrice the cost.
_ndarray = np.ndarray
_ExtType = msgpack.ExtType
_new_tuple = tuple.__new__
_unpackb = msgpack.unpackb


# ---------------------------------------------------------------------------------------------
# Encoding


def encode_packet(
    message: list[Any] | tuple[Any, ...], *, names: Sequence[Any] | None = None
) -> list[Buffer]:
    """Encode a message.

    Large arrays are not copied: the result holds views of them, and what is written to an array
    before the packet is sent, is sent. Whoever keeps a packet longer joins its parts.

    Args:
        message: The message: what section 3 lists, and subclasses of that.
        names: Names of the message's items, for errors. Instead of a name there may be None (the
            index is shown), or a sequence with the names of that item's own items.

    Returns:
        The parts of the packet, one-dimensional bytes each, to be sent one after the other.

    Raises:
        EncodeError: A value cannot be sent. `field` is its path in the message.
    """
    encoder = _take_encoder()
    try:
        head = encoder.pack(message if type(message) is list else list(message))
        # What the receiver would refuse is refused here, where it can be named.
        if len(head) > MAX_DEPTH or 0xFF in head:
            check_head(head)
        start = _HEAD_SIZE.pack(len(head)) + head
    except Exception as error:
        encoder.reset()
        _encoders.append(encoder)
        _raise_encode_error(message, names, error)
    arrays = encoder.arrays
    parts: list[Buffer]
    if arrays:
        encoder.arrays = []
        padding = _PADDING[-len(start) % ALIGNMENT_BYTES]
        parts = [start + padding if padding else start]
        last = arrays.pop()
        for array in arrays:
            parts.append(array)
            padding = _PADDING[-len(array) % ALIGNMENT_BYTES]
            if padding:
                parts.append(padding)
        parts.append(last)
    else:
        parts = [start]
    if len(start) > _KEPT_BYTES:
        encoder.reset()
    _encoders.append(encoder)
    return parts


def packet_size(parts: Iterable[Buffer]) -> int:
    """Return the size of an encoded packet, in bytes."""
    return sum(map(len, parts))


class _UnsendableError(Exception):
    """A value cannot be sent.

    Args:
        reason: Why; the end of a sentence.
        hint: What to do about it.
    """

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.hint = hint


_TOO_DEEP = (
    f"it is nested more than {MAX_DEPTH} levels deep, or contains itself",
    "Flatten it, or send it as text.",
)


class _Encoder:
    """Packs one message at a time.

    Attributes:
        arrays: Bytes of the arrays that go out of band, in the order in which they occur.
        pack: Packs a value.
    """

    __slots__ = ("_depth", "_packs", "arrays", "pack")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Be as new, also in the middle of a message that failed."""
        self.arrays: list[memoryview] = []
        self.pack = self._new_pack()
        self._packs: list[Callable[[Any], bytes]] = []
        self._depth = 0

    def _new_pack(self) -> Callable[[Any], bytes]:
        # strict_types: subclasses, np.float64 among them, and tuples go through `convert`.
        pack: Callable[[Any], bytes] = msgpack.Packer(default=self.convert, strict_types=True).pack
        return pack

    def convert(self, value: Any) -> Any:
        """Return what MessagePack knows for a value that it does not know."""
        kind = type(value)
        if kind is _ndarray:
            return self.array(value)
        converter = _CONVERTERS.get(kind)
        if converter is None:
            converter = _find_converter(kind)
        return converter(self, value)

    def convert_again(self, value: Any) -> Any:
        """Return what `msgpack` packs for a value that it would not ask about once more."""
        kind = type(value)
        if value is None or kind in (bool, float, str, bytes, list, dict):
            return value
        return self.convert(value)

    def nest(self, code: int, items: list[Any]) -> Any:
        """Return an extension whose payload is an array."""
        # A packer cannot be used again while it packs.
        pack = self._packs.pop() if self._packs else self._new_pack()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _UnsendableError(*_TOO_DEEP)
        payload = pack(items)
        self._depth -= 1
        if len(payload) <= _KEPT_BYTES:
            self._packs.append(pack)
        return _new_tuple(_ExtType, (code, payload))

    def array(self, array: np.ndarray[Any, Any]) -> Any:
        """Return the extension for an array, and put a large one's bytes aside."""
        key = (array.dtype, array.shape)
        plan = _plans.get(key)
        if plan is None:
            if array.dtype.kind == "O":
                return self.nest(OBJECT_ARRAY, [list(array.shape), array.reshape(-1).tolist()])
            plan = _plan(array)
            if len(_plans) >= _MAX_PLANS:
                _plans.clear()
            _plans[key] = plan
        prefix, is_inline, dtype = plan
        if dtype is not None:
            array = array.astype(dtype)
        if is_inline:
            return _new_tuple(_ExtType, (NDARRAY, prefix + array.tobytes()))
        if not array.flags.c_contiguous:
            array = array.copy()
        prefix += msgpack.packb(len(self.arrays))
        # Not memoryview(array): Python's buffers know no datetime64, and do not cast all others.
        self.arrays.append(array.reshape(-1).view(np.uint8).data)
        return _new_tuple(_ExtType, (NDARRAY, prefix))


# Encoders that nobody uses at the moment. To take one out and to put one in are atomic, so every
# thread, and every call inside of another, has its own.
_encoders: list[_Encoder] = []


def _take_encoder() -> _Encoder:
    try:
        return _encoders.pop()
    except IndexError:
        return _Encoder()


# A packer keeps its buffer, which has grown to the largest value it packed; where that was larger
# than this, the packer is not kept.
_KEPT_BYTES = 2**18

# What is sent of arrays of a dtype and shape before their data; whether these follow inline; and
# what to convert the array to first, if anything.
_Plan: TypeAlias = "tuple[bytes, bool, np.dtype[Any] | None]"
_plans: dict[tuple[np.dtype[Any], tuple[int, ...]], _Plan] = {}
_MAX_PLANS = 1024


def _plan(array: np.ndarray[Any, Any]) -> _Plan:
    if array.ndim > MAX_DIMENSIONS:
        raise _UnsendableError(
            f"an array has {array.ndim} dimensions, and at most {MAX_DIMENSIONS} can be sent",
            "Reshape it.",
        )
    try:
        dtype = portable_dtype(array.dtype)
        wire = dtype_to_wire(dtype)
        if not array.nbytes:
            check_empty_array(array.shape, array.itemsize)
    except ValueError as error:
        raise _UnsendableError(str(error)) from None
    prefix: bytes = b"\x93" + msgpack.packb(wire) + msgpack.packb(array.shape)
    is_inline = array.nbytes <= INLINE_LIMIT_BYTES
    if is_inline:
        prefix += _bin_header(array.nbytes)
    return prefix, is_inline, None if dtype == array.dtype else dtype


def _bin_header(size_bytes: int) -> bytes:
    header: bytes = msgpack.packb(bytes(size_bytes))
    return header[: len(header) - size_bytes]


# What is sent of NumPy's numbers and booleans before their bytes. (Only where the machine has the
# byte order that is sent; elsewhere `_scalar` goes by way of an array.)
_scalar_dtypes: dict[type, np.dtype[Any]] = {
    dtype.type: dtype
    for dtype in map(np.dtype, "?bhilqBHILQefdFD")
    if dtype == dtype.newbyteorder("<")
}
_scalar_prefixes: dict[type, bytes] = {
    kind: b"\x92" + msgpack.packb(dtype.str) + _bin_header(dtype.itemsize)
    for kind, dtype in _scalar_dtypes.items()
}


def _number(encoder: _Encoder, value: np.generic) -> Any:
    return _new_tuple(_ExtType, (SCALAR, _scalar_prefixes[type(value)] + value.tobytes()))


def _scalar(encoder: _Encoder, value: np.generic) -> Any:
    wire: str | list[Any]
    if isinstance(value, np.str_):
        # Not by way of an array, which would drop NULs at the end.
        wire, data = f"<U{len(value)}", value.encode("utf-32-le", "surrogatepass")
    elif isinstance(value, np.bytes_):
        wire, data = f"|S{len(value)}", bytes(memoryview(value))
    else:
        try:
            dtype = portable_dtype(value.dtype)
            wire = dtype_to_wire(dtype)
        except ValueError as error:
            raise _UnsendableError(str(error)) from None
        data = np.asarray(value).astype(dtype).tobytes()
    payload = b"\x92" + msgpack.packb(wire) + msgpack.packb(data)
    return _new_tuple(_ExtType, (SCALAR, payload))


def _int(encoder: _Encoder, value: int) -> Any:
    value = int.__index__(value)
    if -(2**63) <= value < 2**64:
        return value
    size = (value if value >= 0 else ~value).bit_length() // 8 + 1  # one bit more, for the sign
    if size > MAX_BIG_INT_BYTES:
        raise _UnsendableError(
            f"an integer takes {size} bytes, and at most {MAX_BIG_INT_BYTES} can be sent",
            "Send it as text.",
        )
    return _new_tuple(_ExtType, (BIG_INT, value.to_bytes(size, "big", signed=True)))


def _complex(encoder: _Encoder, value: complex) -> Any:
    return _new_tuple(_ExtType, (COMPLEX, _TWO_DOUBLES.pack(value.real, value.imag)))


def _graph(encoder: _Encoder, value: GraphInstance) -> Any:
    return encoder.nest(GRAPH, [value.nodes, value.edges, value.edge_links])


def _tuple(encoder: _Encoder, value: tuple[Any, ...]) -> Any:
    return encoder.nest(TUPLE, list(value))


def _set(encoder: _Encoder, value: set[Any]) -> Any:
    return encoder.nest(SET, list(value))


def _frozenset(encoder: _Encoder, value: frozenset[Any]) -> Any:
    return encoder.nest(FROZENSET, list(value))


def _array_subclass(encoder: _Encoder, value: np.ndarray[Any, Any]) -> Any:
    if isinstance(value, np.ma.MaskedArray):
        raise _UnsendableError(
            "a masked array would lose its mask", "Fill it, or send data and mask."
        )
    return encoder.array(np.asarray(value))


def _enum(encoder: _Encoder, value: Enum) -> Any:
    return encoder.convert_again(value.value)


def _model(encoder: _Encoder, value: Any) -> Any:
    return encoder.convert_again(value.model_dump())


_Converter: TypeAlias = "Callable[[_Encoder, Any], Any]"

_CONVERTERS: dict[type, _Converter] = {
    **dict.fromkeys(_scalar_prefixes, _number),
    tuple: _tuple,
    set: _set,
    frozenset: _frozenset,
    complex: _complex,
    int: _int,
    GraphInstance: _graph,
}

# What is not listed above is taken for the first of these that it is a subclass of. Their order
# matters: np.float64 is a float too, an Enum may be a str, a GraphInstance is a tuple.
_BASE_CONVERTERS: tuple[tuple[type, _Converter], ...] = (
    (np.ndarray, _array_subclass),
    (np.generic, _scalar),
    (Enum, _enum),
    (GraphInstance, _graph),
    (tuple, _tuple),
    (set, _set),
    (frozenset, _frozenset),
    (list, lambda encoder, value: list(value)),
    (Mapping, lambda encoder, value: dict(value)),
    (str, lambda encoder, value: str.__str__(value)),
    (bytes, lambda encoder, value: bytes(memoryview(value))),
    (bytearray, lambda encoder, value: bytes(memoryview(value))),
    (int, _int),
    (float, lambda encoder, value: float.__float__(value)),
    (complex, _complex),
)


def _find_converter(kind: type) -> _Converter:
    for base, converter in _BASE_CONVERTERS:
        if issubclass(kind, base):
            return converter
    if callable(getattr(kind, "model_dump", None)):  # a Pydantic model
        return _model
    if hasattr(kind, "__dataclass_fields__"):
        hint = "Convert it with dataclasses.asdict."
    elif hasattr(kind, "__array__"):
        hint = "Convert it with numpy.asarray."
    elif issubclass(kind, Iterable):
        hint = "Convert it to a list or a tuple."
    else:
        hint = "Send plain data, NumPy arrays or a Pydantic model."
    raise _UnsendableError("its type is unknown to the protocol", hint)


def _raise_encode_error(
    message: Iterable[Any], names: Sequence[Any] | None, error: Exception
) -> NoReturn:
    """Raise the error for a message that could not be encoded, naming the value to blame."""
    for index, item in enumerate(message):
        name = names[index] if names is not None and index < len(names) else None
        if name is None or isinstance(name, str):
            _blame(name or f"[{index}]", item, 2)
        elif isinstance(item, (list, tuple)):
            for i, inner in enumerate(item):
                _blame(name[i] if i < len(name) else f"[{index}][{i}]", inner, 3)
    # No value is bad by itself.
    hint = "Send numbers as NumPy arrays." if isinstance(error, DecodeError) else None
    raise EncodeError(f"The message cannot be sent: {error}", hint=hint) from error


def _blame(path: str, value: Any, depth: int) -> None:
    """Raise an EncodeError where a value cannot be sent, or one inside it.

    Args:
        path: Where the value is.
        value: The value.
        depth: Its level of nesting, should it be an array or a map.
    """
    kind = type(value)
    if kind in (float, bool, bytes) or (kind is int and abs(value) < 2**63):
        return  # not to be slow with a million numbers
    try:
        children = _children(path, value)
        if children is None:
            _try(value)
            return
        if depth > MAX_DEPTH:
            path = path if len(path) <= 80 else f"{path[:80]}..."
            raise _UnsendableError(*_TOO_DEEP)
    except Exception as error:
        raise EncodeError(
            f"{path} (of type {kind.__qualname__}) cannot be sent: {str(error).rstrip('.')}.",
            field=path,
            hint=getattr(error, "hint", None),
            data={"type": kind.__qualname__},
        ) from None
    for child_path, child in children:
        _blame(child_path, child, depth + 1)


def _try(value: Any) -> None:
    """Encode a value by itself, for the error that this may raise."""
    encoder = _take_encoder()
    try:
        check_head(encoder.pack([value]))
    finally:
        encoder.reset()
        _encoders.append(encoder)


def _children(path: str, value: Any) -> Iterable[tuple[str, Any]] | None:
    """Return paths and values of what a value contains; None where it is a plain one."""
    if isinstance(value, Enum):
        value = value.value
    if callable(getattr(type(value), "model_dump", None)):
        value = value.model_dump()
    if isinstance(value, Mapping):
        pairs = dict(value).items()
        keys = [(f"{path}.keys()[{index}]", key) for index, (key, _) in enumerate(pairs)]
        return keys + [(f"{path}[{reprlib.repr(key)}]", item) for key, item in pairs]
    if isinstance(value, GraphInstance):
        return [(f"{path}.{name}", getattr(value, name)) for name in GraphInstance._fields]
    if isinstance(value, (list, tuple)):
        return [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    if isinstance(value, (set, frozenset)):
        return [(f"{path}{{{reprlib.repr(item)}}}", item) for item in value]
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return [
            (f"{path}[{', '.join(map(str, index))}]", item) for index, item in np.ndenumerate(value)
        ]
    return None


# ---------------------------------------------------------------------------------------------
# Decoding


def decode_packet(data: memoryview) -> list[Any]:
    """Decode a packet.

    Args:
        data: The packet, one-dimensional writable bytes. Large arrays in the result are views of
            this memory, each of its own part, so from now on it belongs to the message.

    Returns:
        The message.

    Raises:
        DecodeError: The bytes are not a packet, or hold what section 3 does not know.
    """
    try:
        (size,) = _HEAD_SIZE.unpack_from(data)
        head = data[4 : 4 + size].tobytes()
        if len(head) != size:
            raise DecodeError(f"A packet of {len(data)} bytes claims a head of {size} bytes.")
        has_many_keys = (size > MAX_DEPTH or 0xFF in head) and check_head(head)
        decoder = _Decoder(data, 4 + size)
        if has_many_keys:
            decoder.pairs_hook = _make_dict
        message = decoder.unpack(head)
        if type(message) is not list:
            raise DecodeError("The head of a packet is not an array.")
        end = decoder.end
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
        pairs_hook: Makes a dict of pairs; None leaves that to `msgpack`, which is faster.
    """

    __slots__ = ("_buffers", "_data", "_depth", "end", "pairs_hook")

    def __init__(self, data: memoryview, end: int) -> None:
        self.end = end
        self.pairs_hook: Callable[[list[tuple[Any, Any]]], dict[Any, Any]] | None = None
        self._data = data
        self._buffers = 0
        self._depth = 0

    def unpack(self, payload: Buffer) -> Any:
        """Unpack exactly one value."""
        if self._depth <= _MAX_UNPACKB_DEPTH:
            return _unpackb(
                payload,
                strict_map_key=False,
                ext_hook=self.extension,
                object_pairs_hook=self.pairs_hook,
            )
        view = memoryview(payload)
        value, position = self._read(view, 0)
        if position != len(view):
            raise DecodeError("The payload of an extension does not end where its array does.")
        return value

    def extension(self, code: int, payload: Any) -> Any:
        """Return the value of an extension.

        Args:
            code: Its type.
            payload: Its payload: bytes, or for those in `_VIEWED_EXTENSIONS` a view.
        """
        if code == NDARRAY:
            return self._array(payload)
        if code == SCALAR:
            return self._scalar(payload)
        if code == TUPLE:
            return tuple(self._items(payload))
        if code == BIG_INT:
            return _read_big_int(payload)
        if code == COMPLEX:
            return complex(*_TWO_DOUBLES.unpack(payload))
        if code in (SET, FROZENSET):
            items = self._items(payload)
            check_keys(items)
            return set(items) if code == SET else frozenset(items)
        if code == OBJECT_ARRAY:
            return self._object_array(payload)
        if code == GRAPH:
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

    def _array(self, payload: bytes) -> np.ndarray[Any, Any]:
        prefix_size = payload.find(_BIN8) + 2
        known = _known_arrays.get(payload[:prefix_size])
        if known is not None and len(payload) == prefix_size + known[2]:
            array: np.ndarray[Any, Any]
            array = _ndarray(known[0], known[1], bytearray(payload[prefix_size:]))
            return array
        wire, shape, content = self._items(payload)
        dtype, item_bytes, is_checked = layout_from_wire(wire)
        size = count_items(shape) * item_bytes
        if not size:
            check_empty_array(shape, item_bytes)
        shape = tuple(shape)
        if type(content) is bytes:
            if len(content) != size:
                raise DecodeError(f"An array of {size} bytes comes with {len(content)} bytes.")
            array = _ndarray(shape, dtype, bytearray(content))
            if prefix_size == len(payload) - size <= _MAX_KNOWN_BYTES and not is_checked:
                if len(_known_arrays) >= _MAX_KNOWN_ARRAYS:
                    _known_arrays.clear()
                _known_arrays[payload[:prefix_size]] = shape, dtype, size
        else:
            if type(content) is not int or content != self._buffers:
                raise DecodeError(f"An array does not refer to buffer {self._buffers}, the next.")
            start = self.end + -self.end % ALIGNMENT_BYTES
            if start + size > len(self._data):
                raise DecodeError(f"An array of {size} bytes goes beyond the end of its packet.")
            array = _ndarray(shape, dtype, self._data, start)
            self._buffers += 1
            self.end = start + size
        if is_checked:
            check_array(array)
        return array

    def _scalar(self, payload: bytes) -> Any:
        prefix_size = payload.find(_BIN8) + 2
        number = _numbers.get(payload[:prefix_size])
        if number is not None and len(payload) == prefix_size + number.itemsize:
            return np.frombuffer(payload, number, 1, prefix_size)[0]
        wire, content = self._items(payload)
        dtype, item_bytes, is_checked = layout_from_wire(wire)
        if type(content) is not bytes or len(content) != item_bytes:
            raise DecodeError("A NumPy scalar does not come with as many bytes as its dtype has.")
        if dtype.kind == "U":
            return np.str_(content.decode("utf-32-le", "surrogatepass"))
        if dtype.kind == "S":
            return np.bytes_(content)
        array: np.ndarray[Any, Any] = _ndarray((), dtype, bytearray(content))
        if is_checked:
            check_array(array)
        return array[()]

    def _object_array(self, payload: Buffer) -> np.ndarray[Any, Any]:
        shape, items = self._items(payload)
        if type(items) is not list or count_items(shape) != len(items):
            raise DecodeError("The items of an object array do not fill its shape.")
        if not items:
            check_empty_array(shape, 8)
        array: np.ndarray[Any, Any]
        array = np.fromiter(items, np.dtype(object), len(items)).reshape(shape)
        return array

    def _read(self, view: memoryview, position: int) -> tuple[Any, int]:
        """Read one value, and return it and where it ends.

        The same as `msgpack.unpackb`, but neither copies a payload nor needs much of the C stack.
        `check_head` has seen the bytes.
        """
        byte = view[position]
        position += 1
        if byte < 0x80:
            return byte, position
        if byte >= 0xE0:
            return byte - 0x100, position
        if byte in _CONSTANTS:
            return _CONSTANTS[byte], position
        if byte in _NUMBER_FORMATS:
            number = _NUMBER_FORMATS[byte]
            return number.unpack_from(view, position)[0], position + number.size
        form, width, size = SIZED_FORMATS[byte]
        if width:
            size = int.from_bytes(view[position : position + width], "big")
            position += width
        if form is Format.ARRAY:
            items = []
            for _ in range(size):
                item, position = self._read(view, position)
                items.append(item)
            return items, position
        if form is Format.MAP:
            pairs = []
            for _ in range(size):
                key, position = self._read(view, position)
                item, position = self._read(view, position)
                pairs.append((key, item))
            return _make_dict(pairs), position
        code = 0
        if form is Format.EXTENSION:
            code = view[position]
            position += 1
        content = view[position : position + size]
        position += size
        if position > len(view):
            raise DecodeError("A value goes beyond the end of what it is a part of.")
        if form is Format.STR:
            return str(content, "utf-8"), position
        if form is Format.BIN:
            return content.tobytes(), position
        payload = content if code in _VIEWED_EXTENSIONS else content.tobytes()
        return self.extension(code, payload), position


# `unpackb` copies the payload of an extension, and takes 41 KB of the C stack: where extensions are
# nested deeper than this, `_Decoder._read` takes over.
_MAX_UNPACKB_DEPTH = 4

# Extensions that hold other values, so that copying their payloads would add up.
_VIEWED_EXTENSIONS = frozenset({TUPLE, SET, FROZENSET, OBJECT_ARRAY, GRAPH})

# What precedes the bytes of an array or a scalar -> shape, dtype and size of the array in bytes, or
# dtype of the scalar. Environments send the same few again and again.
#
# The key ends with the header of the bytes. Should the search find that header's first byte earlier
# (in a shape, say), then the key is not one of these: MessagePack has no two values of which one
# begins with the other.
_known_arrays: dict[bytes, tuple[tuple[int, ...], np.dtype[Any], int]] = {}
_MAX_KNOWN_ARRAYS = 1024
_MAX_KNOWN_BYTES = 64
_numbers: dict[bytes, np.dtype[Any]] = {
    prefix: np.dtype(_scalar_dtypes[kind].str)  # of C's long and long long, the usual one
    for kind, prefix in _scalar_prefixes.items()
    if kind is not np.bool_  # of its bytes, only two are valid
}

_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBER_FORMATS = {
    byte: struct.Struct(form)
    for byte, form in zip(
        range(0xCA, 0xD4), (">f", ">d", ">B", ">H", ">I", ">Q", ">b", ">h", ">i", ">q"), strict=True
    )
}


def _read_big_int(payload: bytes) -> int:
    if not 1 <= len(payload) <= MAX_BIG_INT_BYTES:
        raise DecodeError(f"A big integer has {len(payload)} bytes.")
    value = int.from_bytes(payload, "big", signed=True)
    if len(payload) > 1 and value == int.from_bytes(payload[1:], "big", signed=True):
        raise DecodeError("A big integer is not in its shortest form.")
    return value


def _make_dict(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    check_keys([key for key, _ in pairs])
    return dict(pairs)
