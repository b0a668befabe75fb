"""Batches of observations: what `gymnasium.vector.utils.concatenate` makes, into fresh memory.

A reply points into the batch that it carries until the client has it, so a batch is never written
to again: each request allocates its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array


__all__ = ["ObservationBatcher", "detached"]

Stack = Callable[[Sequence[Any]], Any]


class ObservationBatcher:
    """Makes batches of samples of a space.

    Args:
        space: Space of a single observation.

    Attributes:
        stack: Called with samples; returns a batch of them that shares no memory with them, where
            their space can be stacked (otherwise the samples themselves are in it, in a tuple).
            Whatever is wrong with a sample raises what `concatenate` raises.
    """

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        self._space = space
        self.stack: Stack = _make_stack(space)

    def misfits(self, samples: Sequence[Any]) -> dict[int, Exception]:
        """Return the samples of which no batch can be made, by their index."""
        found: dict[int, Exception] = {}
        for index, sample in enumerate(samples):
            try:
                self.stack([sample])
            except Exception as error:
                found[index] = error
        return found

    def blank(self, count: int) -> Any:
        """Return a batch in which nothing was observed: of zeros, where they can be stacked."""
        batch = create_empty_array(self._space, count)
        return (None,) * count if batch is None else batch

    def replace(self, batch: Any, samples: Mapping[int, Any]) -> Any:
        """Return a batch in which some samples are others; the given one stays as it is."""
        if not samples:
            return batch
        rows = self.stack(list(samples.values()))
        return _replaced(self._space, batch, list(samples), rows)


def detached(value: Any) -> Any:
    """Return a copy of an observation or info that nothing can change from elsewhere.

    Containers and arrays are copied; what else there may be is either immutable, or nothing that
    can be sent.
    """
    if isinstance(value, np.ndarray):
        copy = value.copy()
        if value.dtype.hasobject:
            copy.flat = [detached(item) for item in value.flat]
        return copy
    if isinstance(value, dict):
        return {key: detached(item) for key, item in value.items()}
    if isinstance(value, list):
        return [detached(item) for item in value]
    if isinstance(value, tuple):
        items = [detached(item) for item in value]
        make = getattr(type(value), "_make", tuple)  # a named tuple, such as a GraphInstance
        return make(items)
    if isinstance(value, (set, bytearray)):
        return value.copy()
    return value


def _make_stack(space: gymnasium.Space[Any]) -> Stack:
    kind = type(space)
    if kind in (spaces.Box, spaces.MultiBinary, spaces.MultiDiscrete):
        shape = space.shape
        if shape is not None and math.prod(shape) > 0 and space.dtype is not None:
            return _stack_arrays(space) if shape else _stack_scalars(space)
    if kind is spaces.Discrete:
        return _stack_scalars(space)
    if isinstance(space, spaces.Dict):
        parts = {key: _make_stack(inner) for key, inner in space.spaces.items()}
        return lambda samples: {
            key: stack([sample[key] for sample in samples]) for key, stack in parts.items()
        }
    if isinstance(space, spaces.Tuple):
        columns = [(i, _make_stack(inner)) for i, inner in enumerate(space.spaces)]
        return lambda samples: tuple([stack([s[i] for s in samples]) for i, stack in columns])
    return _stack_anything(space)


def _stack_anything(space: gymnasium.Space[Any]) -> Stack:
    def stack(samples: Sequence[Any]) -> Any:
        if not samples:
            return create_empty_array(space, 0)
        out: Any = create_empty_array(space, len(samples), np.empty)
        return concatenate(space, samples, out)

    return stack


def _stack_arrays(space: gymnasium.Space[Any]) -> Stack:
    """Stack arrays of the same shape: joined along their first axis, it is the same bytes.

    `np.stack` would make a view of each of them first, which takes longer than all the rest.
    """
    shape, dtype = tuple(space.shape or ()), space.dtype
    length, rest = shape[0], shape[1:]
    lengths = {length}
    careful = _stack_anything(space)
    empty, join = np.empty, np.concatenate

    def stack(samples: Sequence[Any]) -> Any:
        count = len(samples)
        try:
            if set(map(len, samples)) == lengths:
                out = empty((count * length, *rest), dtype)
                join(samples, out=out)
                return out.reshape(count, *shape)
        except (TypeError, ValueError):
            pass  # `careful` takes what can be taken, and says what is wrong otherwise
        return careful(samples)

    return stack


def _stack_scalars(space: gymnasium.Space[Any]) -> Stack:
    dtype = np.dtype(space.dtype)
    careful = _stack_anything(space)

    def stack(samples: Sequence[Any]) -> Any:
        try:
            array = np.array(samples)
        except (TypeError, ValueError):
            array = None
        if array is None or array.dtype != dtype or array.ndim != 1:
            return careful(samples)
        return array

    return stack


def _replaced(space: gymnasium.Space[Any], batch: Any, indices: list[int], rows: Any) -> Any:
    if isinstance(space, spaces.Dict):
        return {
            key: _replaced(inner, batch[key], indices, rows[key])
            for key, inner in space.spaces.items()
        }
    if isinstance(space, spaces.Tuple):
        return tuple(
            [_replaced(inner, batch[i], indices, rows[i]) for i, inner in enumerate(space.spaces)]
        )
    if isinstance(batch, np.ndarray):
        copy = batch.copy()
        copy[indices] = rows
        return copy
    items = list(batch)
    for index, row in zip(indices, rows, strict=True):
        items[index] = row
    return tuple(items)
