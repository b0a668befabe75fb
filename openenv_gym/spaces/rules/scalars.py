"""Rules for truth values and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from openenv_gym.spaces.compat import make_box
from openenv_gym.spaces.constraints import Limits
from openenv_gym.spaces.readers import discrete_reader, scalar_reader
from openenv_gym.spaces.rules.rule import Field, Many, Mapped, Mapper


if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BoolField", "FloatField", "IntField", "numbers", "scalar_box"]

_INT64 = np.dtype(np.int64)
_FLOAT64 = np.dtype(np.float64)
_INT64_LIMITS = np.iinfo(np.int64)


class BoolField:
    """``bool``: Discrete(2)."""

    def apply(self, field: Field, mapper: Mapper) -> Mapped | None:
        """Map the field."""
        if field.annotation is not bool:
            return None
        space = spaces.Discrete(2)
        read = discrete_reader(space, field.name)
        many = Many(_to_bools, binary=True)
        return Mapped(space, np.int64, lambda sample: bool(read(sample)), many=many)


class IntField:
    """``int``: Discrete where bounded on both sides, otherwise a Box of int64 and shape ()."""

    def apply(self, field: Field, mapper: Mapper) -> Mapped | None:
        """Map the field."""
        if field.annotation is not int:
            return None
        low, high = Limits.of(field.metadata).of_integers()
        least = _INT64_LIMITS.min if low is None else max(low, _INT64_LIMITS.min)
        greatest = _INT64_LIMITS.max if high is None else min(high, _INT64_LIMITS.max)
        if least > greatest:
            raise field.fail(
                f"no 64-bit integer lies within its bounds ({low} to {high})", "Widen the bounds."
            )
        # Discrete counts in int64: the number of elements and one past the last must fit.
        countable = greatest - least < _INT64_LIMITS.max and greatest < _INT64_LIMITS.max
        if low is not None and high is not None and countable:
            space = spaces.Discrete(greatest - least + 1, start=least)
            return Mapped(space, np.int64, discrete_reader(space, field.name), many=numbers(int))
        box = make_box(
            np.array(least, _INT64),
            np.array(greatest, _INT64),
            (),
            _INT64,
            # Gymnasium cannot draw up to the very last integer, which is as good as no bound.
            bounded_below=low is not None and least > _INT64_LIMITS.min,
            bounded_above=high is not None and greatest < _INT64_LIMITS.max,
        )
        return scalar_box(box, field.name)


class FloatField:
    """``float``: a Box of float64 and shape ()."""

    def apply(self, field: Field, mapper: Mapper) -> Mapped | None:
        """Map the field."""
        if field.annotation is not float:
            return None
        low, high = Limits.of(field.metadata).of_floats()
        if low > high:
            raise field.fail(f"no number lies within its bounds ({low} to {high})", "Widen them.")
        return scalar_box(make_box(np.array(low), np.array(high), (), _FLOAT64), field.name)


def scalar_box(space: spaces.Box, name: str) -> Mapped:
    """Map Python's numbers to a Box of shape ()."""
    dtype = space.dtype
    return Mapped(
        space,
        lambda value: np.array(value, dtype=dtype),
        scalar_reader(space, name),
        many=numbers(type(space.low.item())),
    )


def numbers(kind: type) -> Many:
    """Return how many numbers (or truth values) of one of Python's types become an array."""
    return Many(_to_bools if kind is bool else _to_numbers)


def _to_numbers(array: NDArray[Any]) -> list[Any]:
    values: list[Any] = array.tolist()
    return values


def _to_bools(array: NDArray[Any]) -> list[Any]:
    values: list[Any] = array.astype(np.bool_).tolist()
    return values
