"""What a rule is: it looks at one field of a model and gives its space and the way there.

A rule is a small class with one method: it looks at the field's type and constraints, and gives
the space together with the two functions that turn a value into a sample and back, or None where
the field is not its business. What a rule needs to know is settled once, when the model is
mapped; the functions do the rest on every step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NewType,
    Protocol,
    TypeGuard,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

import gymnasium
from pydantic.fields import FieldInfo

from openenv_gym.errors import SpaceError
from openenv_gym.spaces.describe import Notes


if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pydantic import BaseModel

__all__ = ["HINT", "Field", "Many", "Mapped", "Mapper", "Rule", "is_subclass", "same", "show_type"]

_T = TypeVar("_T")

HINT = (
    "Give a number bounds with `Field(ge=..., le=...)`, annotate an ndarray with `Array(shape, "
    "dtype)`, make a model of what has parts, or name the space: `Annotated[T, "
    "gymnasium.spaces.X(...)]`. What the agent need not see or choose can go into `metadata`."
)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a model, or what a field holds inside, as a rule sees it.

    Attributes:
        owner: ``Model.field``, for errors about the model.
        name: Where its value stands in a sample (``pose.x``), for errors about samples.
        annotation: Its type, without ``Annotated`` and ``NewType``.
        metadata: What ``Annotated`` and ``pydantic.Field`` said beside the type.
        depth: How many types it lies inside.
    """

    owner: str
    name: str
    annotation: Any
    metadata: tuple[Any, ...] = ()
    depth: int = 0

    @classmethod
    def of(
        cls,
        owner: str,
        name: str,
        annotation: Any,
        metadata: tuple[Any, ...] = (),
        depth: int = 0,
    ) -> Field:
        """Describe a field, looking through names for types."""
        while True:
            if get_origin(annotation) is Annotated:
                annotation, *more = get_args(annotation)
                metadata = (*_unpack(more), *metadata)
            elif isinstance(annotation, NewType):
                annotation = annotation.__supertype__
            elif type(annotation).__name__ == "TypeAliasType":  # `type X = int`, Python 3.12
                annotation = annotation.__value__
            else:
                return cls(owner, name, annotation, metadata, depth)

    def inside(self, where: str, annotation: Any, metadata: tuple[Any, ...] = ()) -> Field:
        """Describe what the field holds at `where` (``[0]``)."""
        return Field.of(self.owner + where, self.name + where, annotation, metadata, self.depth + 1)

    @property
    def description(self) -> str:
        """What the model says about it."""
        infos = (item for item in reversed(self.metadata) if isinstance(item, FieldInfo))
        return next((info.description for info in infos if info.description), "")

    def fail(self, problem: str, hint: str) -> SpaceError:
        """Return the error that says why the field cannot be mapped."""
        return SpaceError(f"{self.owner}: {problem}.", field=self.owner, hint=hint)


def _unpack(metadata: list[Any]) -> list[Any]:
    # What Pydantic does for a field it leaves to us where `Field(...)` stands deeper.
    found: list[Any] = []
    for item in metadata:
        if isinstance(item, FieldInfo):
            found.extend(item.metadata)
        found.append(item)
    return found


@dataclass(frozen=True, slots=True)
class Many:
    """How many values of a field stand in one array.

    Attributes:
        to_values: Turns an array of shape ``(n, *shape of the space)``, whose elements lie in the
            space, into a list of n values.
        to_numbers: Turns one value into what an array is made of; None where it is that already.
        binary: Values are true or false, or lists of those.
    """

    to_values: Callable[[NDArray[Any]], list[Any]]
    to_numbers: Callable[[Any], Any] | None = None
    binary: bool = False


@dataclass(frozen=True, slots=True)
class Mapped:
    """What a rule makes of a field.

    Attributes:
        space: Space of the field's samples.
        to_sample: Turns a value of the field into a sample.
        to_value: Turns a sample into a value that the model takes; raises `InvalidActionError`
            for what does not lie in the space.
        notes: What the model knows beyond the space.
        many: How several values become one array; None where they do not.
    """

    space: gymnasium.Space[Any]
    to_sample: Callable[[Any], Any]
    to_value: Callable[[Any], Any]
    notes: Notes = Notes()  # noqa: RUF009 - immutable
    many: Many | None = None

    @property
    def passes(self) -> bool:
        """Values are samples as they are."""
        return self.to_sample is same


class Mapper(Protocol):
    """Maps what lies inside a field."""

    def map_field(self, field: Field) -> Mapped:
        """Map a field, or what a field holds.

        Raises:
            SpaceError: No space is known for it.
        """

    def map_model(self, model: type[BaseModel], field: Field) -> Mapped:
        """Map the model that a field holds.

        Raises:
            SpaceError: Some field of it cannot be mapped.
        """


class Rule(Protocol):
    """Maps fields of one kind."""

    def apply(self, field: Field, mapper: Mapper) -> Mapped | None:
        """Map the field, or return None to leave it to the next rule.

        Raises:
            SpaceError: It is of this rule's kind, but no space can hold it.
        """


def same(value: Any) -> Any:
    """Return the value: the conversion of those that are samples as they are."""
    return value


def is_subclass(kind: Any, base: type[_T]) -> TypeGuard[type[_T]]:
    """Return whether a type is a class derived from `base`."""
    # For Python 3.10, `list[int]` is a class too.
    return get_origin(kind) is None and isinstance(kind, type) and issubclass(kind, base)


def show_type(annotation: Any) -> str:
    """Return a type as one would write it."""
    if annotation is None or annotation is type(None):
        return "None"
    if is_subclass(annotation, object):
        return annotation.__name__
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return show_type(args[0])
    if origin in (Union, UnionType):
        return " | ".join(show_type(option) for option in args)
    if origin is not Literal and is_subclass(origin, object):
        inner = ", ".join("..." if arg is Ellipsis else show_type(arg) for arg in args)
        return f"{origin.__name__}[{inner}]"
    return str(annotation).removeprefix("typing.")
