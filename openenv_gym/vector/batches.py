"""Batches of samples of a space: checked, taken apart for servers, and put together from theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from openenv_gym.errors import InvalidActionError


__all__ = ["Batches", "Part", "Rows", "batches_of"]

Rows = slice | npt.NDArray[np.int64]
"""Which samples of a batch."""

Part = tuple[Rows, Any]
"""Rows, and the batch that belongs there."""


class Batches(Protocol):
    """Batches of samples of one space, as `gymnasium.vector.utils.concatenate` makes them.

    Attributes:
        plain: They are numbers in arrays, which can always be sent.
    """

    plain: bool

    def check(self, batch: Any, count: int, name: str) -> Any:
        """Return a batch that a caller passed in the form in which it is sent.

        Raises:
            InvalidActionError: It is no batch of `count` samples; `name` is what errors call it.
            TypeError: It is no batch at all.
        """

    def fits(self, batch: Any, count: int) -> bool:
        """Tell whether something a server sent is a batch of `count` samples, by its form."""

    def take(self, batch: Any, rows: Rows) -> Any:
        """Return some samples of a batch; a view where they are a slice of an array."""

    def sample(self, batch: Any, row: int) -> Any:
        """Return one sample of a batch."""

    def join(self, parts: Sequence[Part], count: int, out: Any = None) -> Any:
        """Return a batch made of parts, in the memory of an earlier batch where there is one.

        Without any part it holds zeros, or None where nothing can be stacked.
        """


def batches_of(space: gymnasium.Space[Any]) -> Batches:
    """Return what knows batches of samples of a space."""
    if isinstance(space, (spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Discrete)):
        return _Arrays(space)
    if isinstance(space, spaces.Dict):
        return _Dicts({key: batches_of(inner) for key, inner in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return _Tuples([batches_of(inner) for inner in space.spaces])
    return _Samples()


class _Arrays:
    """One array, whose first dimension counts the samples."""

    plain = True

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        self._shape = tuple(space.shape or ())
        self._dtype = space.dtype

    def check(self, batch: Any, count: int, name: str) -> Any:
        array = batch if type(batch) is np.ndarray else _as_array(batch, name)
        if array.ndim == 0:
            raise TypeError(
                f"Expected {count} {name}, one for each sub-environment, got {batch!r}."
            )
        if array.shape != (count, *self._shape) or array.dtype.kind not in "biuf":
            raise InvalidActionError(
                f"Expected {name} as an array of shape {(count, *self._shape)}, "
                f"got shape {array.shape} and dtype {array.dtype}.",
                field=name,
            )
        return array

    def fits(self, batch: Any, count: int) -> bool:
        if type(batch) is not np.ndarray or batch.shape != (count, *self._shape):
            return False
        dtype = self._dtype
        return dtype is None or batch.dtype == dtype or np.can_cast(batch.dtype, dtype, "same_kind")

    def take(self, batch: Any, rows: Rows) -> Any:
        return batch[rows]

    def sample(self, batch: Any, row: int) -> Any:
        return batch[row]

    def join(self, parts: Sequence[Part], count: int, out: Any = None) -> Any:
        if out is None:
            make = np.empty if parts else np.zeros
            out = make((count, *self._shape), self._dtype)
        for rows, part in parts:
            out[rows] = part
        return out


class _Dicts:
    """A map of batches."""

    def __init__(self, inner: dict[Any, Batches]) -> None:
        self._inner = inner
        self.plain = all(each.plain for each in inner.values())

    def check(self, batch: Any, count: int, name: str) -> Any:
        if not isinstance(batch, dict) or batch.keys() != self._inner.keys():
            got = f"keys {list(batch)}" if isinstance(batch, dict) else f"a {_kind(batch)}"
            raise InvalidActionError(
                f"Expected {name} as a dict with the keys {list(self._inner)}, got {got}.",
                field=name,
            )
        return {
            key: each.check(batch[key], count, f"{name}[{key!r}]")
            for key, each in self._inner.items()
        }

    def fits(self, batch: Any, count: int) -> bool:
        return (
            isinstance(batch, dict)
            and batch.keys() == self._inner.keys()
            and all(each.fits(batch[key], count) for key, each in self._inner.items())
        )

    def sample(self, batch: Any, row: int) -> Any:
        return {key: each.sample(batch[key], row) for key, each in self._inner.items()}

    def take(self, batch: Any, rows: Rows) -> Any:
        return {key: each.take(batch[key], rows) for key, each in self._inner.items()}

    def join(self, parts: Sequence[Part], count: int, out: Any = None) -> Any:
        out = {} if out is None else out
        for key, each in self._inner.items():
            out[key] = each.join([(rows, part[key]) for rows, part in parts], count, out.get(key))
        return out


class _Tuples:
    """A tuple of batches."""

    def __init__(self, inner: list[Batches]) -> None:
        self._inner = inner
        self.plain = all(each.plain for each in inner)

    def check(self, batch: Any, count: int, name: str) -> Any:
        if not isinstance(batch, (tuple, list)) or len(batch) != len(self._inner):
            raise InvalidActionError(
                f"Expected {name} as a tuple of {len(self._inner)} batches, got a {_kind(batch)}.",
                field=name,
            )
        return tuple(
            each.check(part, count, f"{name}[{index}]")
            for index, (each, part) in enumerate(zip(self._inner, batch, strict=True))
        )

    def fits(self, batch: Any, count: int) -> bool:
        return (
            isinstance(batch, tuple)
            and len(batch) == len(self._inner)
            and all(each.fits(part, count) for each, part in zip(self._inner, batch, strict=True))
        )

    def sample(self, batch: Any, row: int) -> Any:
        return tuple(each.sample(part, row) for each, part in zip(self._inner, batch, strict=True))

    def take(self, batch: Any, rows: Rows) -> Any:
        return tuple(each.take(part, rows) for each, part in zip(self._inner, batch, strict=True))

    def join(self, parts: Sequence[Part], count: int, out: Any = None) -> Any:
        return tuple(
            each.join(
                [(rows, part[index]) for rows, part in parts],
                count,
                None if out is None else out[index],
            )
            for index, each in enumerate(self._inner)
        )


class _Samples:
    """The samples themselves in a tuple: nothing can be stacked."""

    plain = False

    def check(self, batch: Any, count: int, name: str) -> Any:
        if not isinstance(batch, (tuple, list)) or len(batch) != count:
            got = f"{len(batch)} in a {_kind(batch)}" if hasattr(batch, "__len__") else repr(batch)
            raise InvalidActionError(
                f"Expected {name} as a tuple with one for each of {count} sub-environments, "
                f"got {got:.80}.",
                field=name,
            )
        return tuple(batch)

    def fits(self, batch: Any, count: int) -> bool:
        return isinstance(batch, tuple) and len(batch) == count

    def sample(self, batch: Any, row: int) -> Any:
        return batch[row]

    def take(self, batch: Any, rows: Rows) -> Any:
        if isinstance(rows, slice):
            return tuple(batch[rows])
        return tuple(batch[row] for row in rows)

    def join(self, parts: Sequence[Part], count: int, out: Any = None) -> Any:
        samples: list[Any] = [None] * count
        for rows, part in parts:
            numbers = range(*rows.indices(count)) if isinstance(rows, slice) else rows
            for number, sample in zip(numbers, part, strict=True):
                samples[number] = sample
        return tuple(samples)


def _as_array(batch: Any, name: str) -> npt.NDArray[Any]:
    try:
        return np.asarray(batch)
    except ValueError as error:  # rows of different lengths
        raise InvalidActionError(f"Expected {name} as an array: {error}", field=name) from error


def _kind(value: Any) -> str:
    return type(value).__name__
