"""Rule for values of one type or another: `Optional`, plain and discriminated unions."""

from __future__ import annotations

import functools
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

import numpy as np
from gymnasium import spaces
from pydantic import BaseModel, ConfigDict, Discriminator, Tag, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from openenv_gym.errors import InvalidActionError
from openenv_gym.models.fields import Array
from openenv_gym.spaces.actions import refusal, show_sample
from openenv_gym.spaces.describe import Notes
from openenv_gym.spaces.readers import discrete_reader
from openenv_gym.spaces.rules.labels import labels_of
from openenv_gym.spaces.rules.rule import (
    Field,
    Mapped,
    Mapper,
    is_subclass,
    show_type,
)


if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["UnionField"]

_CONTAINERS = (list, tuple, dict, set, frozenset)


class UnionField:
    """``A | B``: OneOf, its options in the order in which they stand."""

    def apply(self, field: Field, mapper: Mapper) -> Mapped | None:
        """Map the field."""
        if get_origin(field.annotation) not in (Union, UnionType):
            return None
        # Pydantic applies `Field(ge=0)` of an `int | None` to the int.
        limits = tuple(m for m in field.metadata if not isinstance(m, (FieldInfo, Discriminator)))
        options = [
            _Option(i, annotation, field.inside(f"[{i}]", annotation, limits), mapper)
            for i, annotation in enumerate(get_args(field.annotation))
        ]
        by_type = _by_type(options)
        name = field.name
        read_number = discrete_reader(spaces.Discrete(len(options)), f"{name}[0]")

        def to_sample(value: Any) -> tuple[np.int64, Any]:
            found = by_type.get(type(value), options)
            option = found[0] if len(found) == 1 else _choose(found, value, name)
            return option.number, option.to_sample(value)

        def to_value(sample: Any) -> Any:
            if not isinstance(sample, tuple) or len(sample) != 2:
                raise refusal(name, f"is {show_sample(sample)}, expected a pair of number, sample")
            return options[read_number(sample[0])].to_value(sample[1])

        tag = _discriminator(field)
        return Mapped(
            spaces.OneOf([option.mapped.space for option in options]),
            to_sample,
            to_value,
            Notes(
                labels=tuple(option.label(tag) for option in options),
                parts=dict(enumerate(option.mapped.notes for option in options)),
            ),
        )


class _Option:
    """One of the types of a union.

    Attributes:
        number: Its place among them.
        mapped: What its rule makes of it.
        types: Classes of its values; None where they are not known.
        to_sample: Turns a value into a sample of its space.
    """

    def __init__(self, number: int, annotation: Any, field: Field, mapper: Mapper) -> None:
        self.number = np.int64(number)
        self.field = field
        self.mapped = mapper.map_field(field)
        self.types = _types(field)
        self.to_sample = self.mapped.to_sample
        self._annotation = annotation
        # A model comes out of its rule as a dict of its fields, which could be any model's: here
        # it must be known which it is.
        self._makes_models = self.types is None or any(
            issubclass(kind, (BaseModel, *_CONTAINERS)) for kind in self.types
        )

    @functools.cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """What validates a value against this type alone."""
        if is_subclass(self.field.annotation, BaseModel):
            return TypeAdapter(self._annotation)
        return TypeAdapter(self._annotation, config=ConfigDict(arbitrary_types_allowed=True))

    def accepts(self, value: Any, strict: bool) -> bool:
        """Return whether the value is one of this type."""
        return self.adapter.validator.isinstance_python(value, strict=strict)

    def to_value(self, sample: Any) -> Any:
        """Turn a sample of its space into a value of exactly this type."""
        value = self.mapped.to_value(sample)
        if not self._makes_models:
            return value
        try:
            return self.adapter.validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            name = ".".join([self.field.name, *map(str, first["loc"])])
            raise InvalidActionError(
                f"{name}: {first['msg']}.", field=name, hint=f"See {show_type(self._annotation)}."
            ) from error

    def label(self, discriminator: str | None) -> str:
        """Return what the option is called: its tag, or its type."""
        for item in self.field.metadata:
            if isinstance(item, Tag):
                return item.tag
        kind = self.field.annotation
        if discriminator and is_subclass(kind, BaseModel) and discriminator in kind.model_fields:
            info = kind.model_fields[discriminator]
            found = labels_of(Field.of("", "", info.annotation, tuple(info.metadata)))
            if found:
                return ", ".join(str(label) for label in found)
        return show_type(kind)


def _by_type(options: Sequence[_Option]) -> dict[type, list[_Option]]:
    """Return the options that a value of a class may belong to."""
    known = {kind for option in options for kind in option.types or ()}
    return {
        kind: [option for option in options if option.types is None or kind in option.types]
        for kind in known
    }


def _choose(options: Sequence[_Option], value: Any, name: str) -> _Option:
    for strict in (True, False):
        for option in options:
            if option.accepts(value, strict):
                return option
    raise ValueError(f"{name} is {show_sample(value)}, which none of its types takes.")


def _types(field: Field) -> tuple[type, ...] | None:
    kind = field.annotation
    if any(isinstance(item, Array) for item in field.metadata):
        return (np.ndarray,)
    if kind is None:
        return (type(None),)
    origin = get_origin(kind)
    if origin is Literal:
        return tuple({type(label) for label in get_args(kind)})
    if origin in (*_CONTAINERS, np.ndarray):
        return (origin,)
    return (kind,) if is_subclass(kind, object) else None


def _discriminator(field: Field) -> str | None:
    for item in field.metadata:
        if isinstance(item, (FieldInfo, Discriminator)) and isinstance(item.discriminator, str):
            return item.discriminator
    return None
