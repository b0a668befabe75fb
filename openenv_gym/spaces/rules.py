"""Rules that map one field of a Pydantic model to a Gymnasium space, tried in order.

A rule is a small class with one method: it looks at the field's type and constraints, and gives
the space together with the two functions that turn a value into a sample and back, or None where
the field is not its business. What a rule needs to know is settled once, when the model is
mapped; the functions do the rest on every step.
"""

from __future__ import annotations

import enum
import string
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import (
    Annotated,
    Any,
    Literal,
    NewType,
    Protocol,
    TypeGuard,
    TypeVar,
    get_args,
    get_origin,
)

import gymnasium
import numpy as np
from gymnasium import spaces
from pydantic import BaseModel

from openenv_gym.errors import SpaceError
from openenv_gym.models.fields import Array
from openenv_gym.spaces.compat import make_box
from openenv_gym.spaces.constraints import Limits
from openenv_gym.spaces.readers import box_reader, discrete_reader, sample_reader, scalar_reader


__all__ = ["RULES", "Field", "MapModel", "Mapped", "Rule"]

_T = TypeVar("_T")

_INT64 = np.dtype(np.int64)
_FLOAT64 = np.dtype(np.float64)
_INT64_LIMITS = np.iinfo(np.int64)
_MAX_TEXT = 4096


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a model, as a rule sees it.

    Attributes:
        owner: ``Model.field``, for errors about the model.
        name: Where its value stands in a sample (``pose.x``), for errors about samples.
        annotation: Its type, without ``Annotated`` and ``NewType``.
        metadata: What ``Annotated`` and ``pydantic.Field`` said beside the type.
    """

    owner: str
    name: str
    annotation: Any
    metadata: tuple[Any, ...] = ()

    @classmethod
    def of(cls, owner: str, name: str, annotation: Any, metadata: tuple[Any, ...] = ()) -> Field:
        """Describe a field, looking through names for types."""
        while True:
            if get_origin(annotation) is Annotated:
                annotation, *more = get_args(annotation)
                metadata = (*more, *metadata)
            elif isinstance(annotation, NewType):
                annotation = annotation.__supertype__
            elif type(annotation).__name__ == "TypeAliasType":  # `type X = int`, Python 3.12
                annotation = annotation.__value__
            else:
                return cls(owner, name, annotation, metadata)

    def fail(self, problem: str, hint: str) -> SpaceError:
        """Return the error that says why the field cannot be mapped."""
        return SpaceError(f"{self.owner}: {problem}.", field=self.owner, hint=hint)


@dataclass(frozen=True, slots=True)
class Mapped:
    """What a rule makes of a field.

    Attributes:
        space: Space of the field's samples.
        to_sample: Turns a value of the field into a sample.
        to_value: Turns a sample into a value that the model takes; raises `InvalidActionError`
            for what does not lie in the space.
    """

    space: gymnasium.Space[Any]
    to_sample: Callable[[Any], Any]
    to_value: Callable[[Any], Any]

    @property
    def passes(self) -> bool:
        """Values are samples as they are."""
        return self.to_sample is _same


MapModel = Callable[[type[BaseModel], str, str], Mapped]
"""Maps a model nested in a field: the model, its owner and its name in a sample."""


class Rule(Protocol):
    """Maps fields of one kind."""

    def apply(self, field: Field, map_model: MapModel) -> Mapped | None:
        """Map the field, or return None to leave it to the next rule.

        Raises:
            SpaceError: It is of this rule's kind, but no space can hold it.
        """


def _is_subclass(kind: Any, base: type[_T]) -> TypeGuard[type[_T]]:
    # For Python 3.10, `list[int]` is a class too.
    return get_origin(kind) is None and isinstance(kind, type) and issubclass(kind, base)


def _same(value: Any) -> Any:
    return value


class NamedSpace:
    """``Annotated[T, Discrete(5)]``: the space that the field names outright."""

    def apply(self, field: Field, map_model: MapModel) -> Mapped | None:
        """Map the field; values pass through, except that Python's own scalars become NumPy's."""
        space = next((item for item in field.metadata if isinstance(item, gymnasium.Space)), None)
        if space is None:
            return None
        kind = field.annotation
        if isinstance(space, spaces.Discrete) and kind in (int, bool):
            read = discrete_reader(space, field.name)
            return Mapped(space, space.dtype.type, read if kind is int else lambda s: bool(read(s)))
        if isinstance(space, spaces.Box) and space.shape == () and kind in (int, float, bool):
            return _scalar_box(space, field.name)
        return Mapped(space, _same, sample_reader(space, field.name))


class ArrayField:
    """``Annotated[np.ndarray, Array(...)]``: a Box of the same form."""

    def apply(self, field: Field, map_model: MapModel) -> Mapped | None:
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
        return Mapped(space, _same, box_reader(space, field.name))


class BoolField:
    """``bool``: Discrete(2)."""

    def apply(self, field: Field, map_model: MapModel) -> Mapped | None:
        """Map the field."""
        if field.annotation is not bool:
            return None
        space = spaces.Discrete(2)
        read = discrete_reader(space, field.name)
        return Mapped(space, np.int64, lambda sample: bool(read(sample)))


class IntField:
    """``int``: Discrete where bounded on both sides, otherwise a Box of int64 and shape ()."""

    def apply(self, field: Field, map_model: MapModel) -> Mapped | None:
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
            return Mapped(space, np.int64, discrete_reader(space, field.name))
        box = make_box(
            np.array(least, _INT64),
            np.array(greatest, _INT64),
            (),
            _INT64,
            bounded_below=low is not None,
            bounded_above=high is not None,
        )
        return _scalar_box(box, field.name)


class FloatField:
    """``float``: a Box of float64 and shape ()."""

    def apply(self, field: Field, map_model: MapModel) -> Mapped | None:
        """Map the field."""
        if field.annotation is not float:
            return None
        low, high = Limits.of(field.metadata).of_floats()
        if low > high:
            raise field.fail(f"no number lies within its bounds ({low} to {high})", "Widen them.")
        return _scalar_box(make_box(np.array(low), np.array(high), (), _FLOAT64), field.name)


def _scalar_box(space: spaces.Box, name: str) -> Mapped:
    dtype = space.dtype
    return Mapped(space, lambda value: np.array(value, dtype=dtype), scalar_reader(space, name))


class LabelField:
    """``Literal[...]`` and ``Enum``: Discrete(k), one number for each label in order."""

    def apply(self, field: Field, map_model: MapModel) -> Mapped | None:
        """Map the field."""
        kind = field.annotation
        labels: tuple[Any, ...]
        members: Callable[[Any], Any] = _same
        if get_origin(kind) is Literal:
            labels = get_args(kind)
        # The values of a Flag are more than its members.
        elif _is_subclass(kind, enum.Enum) and not issubclass(kind, enum.Flag):
            labels, members = tuple(kind), kind
        else:
            return None
        if not labels:
            raise field.fail(f"{kind.__name__} has no members", "Give it at least one.")
        # The type belongs to the key: True equals 1 and is another label.
        numbers: dict[Hashable, np.int64] = {
            (type(label), label): np.int64(number) for number, label in enumerate(labels)
        }

        def to_sample(value: Any) -> np.int64:
            number = numbers.get((type(value), value))
            # With `use_enum_values`, a model holds the members' values.
            return numbers[(kind, members(value))] if number is None else number

        space = spaces.Discrete(len(labels))
        read = discrete_reader(space, field.name)
        return Mapped(space, to_sample, lambda sample: labels[read(sample)])


class TextField:
    """``str``: Text of printable ASCII."""

    def apply(self, field: Field, map_model: MapModel) -> Mapped | None:
        """Map the field."""
        if field.annotation is not str:
            return None
        limits = Limits.of(field.metadata)
        longest = _MAX_TEXT if limits.max_length is None else limits.max_length
        if limits.min_length > longest:
            raise field.fail(
                f"min_length {limits.min_length} is above max_length {longest}",
                "Set `max_length`.",
            )
        space = spaces.Text(longest, min_length=limits.min_length, charset=string.printable)
        return Mapped(space, _same, sample_reader(space, field.name))


class ModelField:
    """A nested model: Dict of its fields."""

    def apply(self, field: Field, map_model: MapModel) -> Mapped | None:
        """Map the field."""
        kind = field.annotation
        if not _is_subclass(kind, BaseModel):
            return None
        return map_model(kind, field.owner, field.name)


RULES: tuple[Rule, ...] = (
    NamedSpace(),
    ArrayField(),
    BoolField(),
    IntField(),
    FloatField(),
    LabelField(),
    TextField(),
    ModelField(),
)
