"""Copies of what an environment returned, before it or its user writes into them again."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import GraphInstance

from openenv_gym.errors import RecordingError


__all__ = ["Snapshots", "copy_bits"]

_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})
_OVERHEAD_BYTES = 64  # of a Python object


def copy_bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy of an array, with what is between the fields of structures."""
    if array.dtype.kind != "V" or not array.nbytes:
        return array.copy()
    copied: np.ndarray[Any, Any] = np.ndarray(
        array.shape, array.dtype, bytearray(array.tobytes())
    )
    return copied


class Snapshots:
    """Copies values.

    Attributes:
        size_bytes: About what all copies so far take.
    """

    def __init__(self) -> None:
        self.size_bytes = 0

    def take(self, value: Any) -> Any:
        """Return a copy that nothing done to the value changes.

        Raises:
            RecordingError: It cannot be copied.
        """
        kind = type(value)
        if kind is np.ndarray:
            self.size_bytes += value.nbytes
            return copy_bits(value) if not value.dtype.hasobject else self._objects(value)
        if kind is float or kind is bool or kind is int or value is None:
            return value
        if kind is dict:
            return {key: self.take(each) for key, each in value.items()}
        if kind is tuple or kind is list:
            return kind([self.take(each) for each in value])
        self.size_bytes += _OVERHEAD_BYTES
        if kind in _ATOMS:
            self.size_bytes += len(value) if kind in (str, bytes) else 0
            return value
        if isinstance(value, np.generic):
            self.size_bytes += value.nbytes
            return value
        if kind is GraphInstance:
            return GraphInstance(*map(self.take, value))
        if isinstance(value, Mapping):
            return {key: self.take(each) for key, each in dict(value).items()}
        try:
            return copy.deepcopy(value)
        except Exception as error:  # whatever its class raises
            raise RecordingError(
                f"A {kind.__qualname__} cannot be copied: {type(error).__name__}: {error}",
                hint="Name its key in leave_out=, if it is in an info.",
            ) from error

    def _objects(self, array: np.ndarray[Any, Any]) -> Any:
        taken = array.copy()
        if array.dtype.kind == "O":
            flat = taken.reshape(-1)
            for index, item in enumerate(array.reshape(-1)):
                flat[index] = self.take(item)
        return taken
