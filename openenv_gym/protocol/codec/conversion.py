"""Values to what MessagePack knows: extensions, and built-in types instead of their subclasses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

import msgpack
import numpy as np
from gymnasium.spaces import GraphInstance

from openenv_gym.errors import EncodeError
from openenv_gym.protocol.codec.arrays import write_array
from openenv_gym.protocol.codec.format import (
    FROZENSET,
    GRAPH,
    MAX_DEPTH,
    OBJECT_ARRAY,
    SET,
    TUPLE,
    extension,
)
from openenv_gym.protocol.codec.scalars import (
    NUMBERS,
    write_complex,
    write_int,
    write_number,
    write_scalar,
)


__all__ = ["Converter", "too_deep"]

# Looked up as globals, which is faster than as attributes.
_ndarray = np.ndarray
_Packer = msgpack.Packer

# Types whose values are sent as their items. (A GraphInstance is a tuple of three, and comes before
# the others for its subclasses.)
_CONTAINER_CODES: dict[type, int] = {
    GraphInstance: GRAPH,
    tuple: TUPLE,
    set: SET,
    frozenset: FROZENSET,
}


class Converter:
    """Converts what occurs in one message.

    Attributes:
        buffers: Bytes of the arrays that go beside the head, in the order in which they occur.
    """

    __slots__ = ("_depth", "buffers")

    def __init__(self) -> None:
        self.buffers: list[memoryview] = []
        self._depth = 0

    def new_packer(self) -> msgpack.Packer:
        """Return what packs values, one at a time."""
        # strict_types: subclasses, np.float64 among them, and tuples go through `convert`.
        # buf_size: the usual one is 256 KiB, and a packer is made for every tuple.
        return _Packer(default=self.convert, strict_types=True, buf_size=512)

    def convert(self, value: Any) -> Any:
        """Return what MessagePack knows for a value that it does not know."""
        kind = type(value)
        if kind is _ndarray:
            written = write_array(value, self.buffers)
            return self._objects(value) if written is None else written
        if kind in NUMBERS:
            return write_number(value)
        if (
            kind is int
        ):  # a big one: two of them are in the state of a generator, so with many steps
            return write_int(value)
        code = _CONTAINER_CODES.get(kind)
        if code is not None:
            return self._nest(code, list(value))
        return self._convert_other(value, kind)

    def _convert_other(self, value: Any, kind: type) -> Any:
        # The order matters: np.float64 is a float too, and an Enum may be a str.
        if issubclass(kind, np.ndarray):
            if issubclass(kind, np.ma.MaskedArray):
                raise EncodeError(
                    "a masked array would lose its mask", hint="Fill it, or send data and mask."
                )
            return self._array(np.asarray(value))
        if issubclass(kind, np.generic):
            return write_scalar(value)
        if issubclass(kind, Enum):
            return self._convert_again(value.value)
        for base, code in _CONTAINER_CODES.items():
            if issubclass(kind, base):
                return self._nest(code, list(value))
        if issubclass(kind, list):
            return list(value)
        if issubclass(kind, Mapping):
            return dict(value)
        if issubclass(kind, str):
            return str.__str__(value)
        if issubclass(kind, (bytes, bytearray)):
            return bytes(memoryview(value))
        if issubclass(kind, int):
            return write_int(value)
        if issubclass(kind, float):
            return float.__float__(value)
        if issubclass(kind, complex):
            return write_complex(value)
        if callable(getattr(kind, "model_dump", None)):  # a Pydantic model
            return self._convert_again(value.model_dump())
        raise _unknown_type(kind)

    def _convert_again(self, value: Any) -> Any:
        # `msgpack` asks only once about a value.
        if value is None or type(value) in (bool, float, str, bytes, list, dict):
            return value
        return self.convert(value)

    def _array(self, array: np.ndarray[Any, Any]) -> Any:
        written = write_array(array, self.buffers)
        return self._objects(array) if written is None else written

    def _objects(self, array: np.ndarray[Any, Any]) -> Any:
        return self._nest(OBJECT_ARRAY, [list(array.shape), array.reshape(-1).tolist()])

    def _nest(self, code: int, items: list[Any]) -> Any:
        """Return an extension whose payload is an array."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise too_deep()
        payload = self.new_packer().pack(items)
        self._depth -= 1
        return extension(code, payload)


def too_deep() -> EncodeError:
    """Return the error for a value inside more than `MAX_DEPTH` others."""
    return EncodeError(
        f"it is nested more than {MAX_DEPTH} levels deep, or contains itself",
        hint="Flatten it, or send it as text.",
    )


def _unknown_type(kind: type) -> EncodeError:
    if hasattr(kind, "__dataclass_fields__"):
        hint = "Convert it with dataclasses.asdict."
    elif hasattr(kind, "to_dict"):  # a table, of which an array would be one of objects
        hint = "Send its columns: frame.to_dict('list'), with dates as text."
    elif hasattr(kind, "__array__"):
        hint = "Convert it with numpy.asarray."
    elif issubclass(kind, Iterable):
        hint = "Convert it to a list or a tuple."
    else:
        hint = "Send plain data, NumPy arrays or a Pydantic model."
    return EncodeError("its type is unknown to the protocol", hint=hint)
