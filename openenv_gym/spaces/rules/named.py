"""Rules for fields that name their space: a space, a `Sample` of one, or an `Array`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from openenv_gym.models.fields import Array
from openenv_gym.spaces.compat import make_box
from openenv_gym.spaces.models import Sample
from openenv_gym.spaces.readers import box_reader, discrete_reader, sample_reader
from openenv_gym.spaces.rules.rule import Field, Many, Mapped, Mapper, same
from openenv_gym.spaces.rules.scalars import numbers, scalar_box


__all__ = ["ArrayField", "NamedSpace", "SampleField"]

_INT64 = np.dtype(np.int64)
_INT64_LIMITS = np.iinfo(np.int64)


class SampleField:
    """``Annotated[T, Sample(X(...))]``: that space; the model itself checks what it is given."""

    def apply(self, field: Field, mapper: Mapper) -> Mapped | None:
        """Map the field; values are samples."""
        found = next((item for item in field.metadata if isinstance(item, Sample)), None)
        return None if found is None else Mapped(found.space, same, same)


class NamedSpace:
    """``Annotated[T, Discrete(5)]``: the space that the field names outright."""

    def apply(self, field: Field, mapper: Mapper) -> Mapped | None:
        """Map the field; values pass through, except that Python's own scalars become NumPy's."""
        space = next((item for item in field.metadata if isinstance(item, gymnasium.Space)), None)
        if space is None:
            return None
        kind = field.annotation
        if isinstance(space, spaces.Discrete) and kind in (int, bool):
            read = discrete_reader(space, field.name)
            return Mapped(
                space,
                space.dtype.type,
                read if kind is int else lambda sample: bool(read(sample)),
                many=numbers(kind),
            )
        if isinstance(space, spaces.Box) and space.shape == () and kind in (int, float, bool):
            return scalar_box(space, field.name)
        return Mapped(space, same, sample_reader(space, field.name))


class ArrayField:
    """``Annotated[np.ndarray, Array(...)]``: a Box of the same form."""

    def apply(self, field: Field, mapper: Mapper) -> Mapped | None:
        """Map the field; the array is the sample, uncopied."""
        form = next((item for item in field.metadata if isinstance(item, Array)), None)
        if form is None:
            return None
        # int64's own limits would overflow when the Box samples; without bounds it does not.
        limited: dict[str, bool] = {}
        if form.dtype == _INT64:
            limited["bounded_below"] = bool(np.any(form.low != _INT64_LIMITS.min))
            limited["bounded_above"] = bool(np.any(form.high != _INT64_LIMITS.max))
        space = make_box(form.low, form.high, form.shape, form.dtype, **limited)
        return Mapped(space, same, box_reader(space, field.name), many=Many(_rows))


def _rows(array: Any) -> list[Any]:
    return list(array)
