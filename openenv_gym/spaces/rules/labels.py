"""Rule for labels: `Literal`, `Enum` and None, alone or together."""

from __future__ import annotations

import enum
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

import numpy as np
from gymnasium import spaces

from openenv_gym.spaces.describe import Notes
from openenv_gym.spaces.readers import discrete_reader
from openenv_gym.spaces.rules.rule import Field, Many, Mapped, Mapper, is_subclass, show_type


if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

__all__ = ["LabelField", "labels_of"]


class LabelField:
    """``Literal[...]``, ``Enum``, None and unions of those: Discrete(k), numbers in order."""

    def apply(self, field: Field, mapper: Mapper) -> Mapped | None:
        """Map the field."""
        labels = labels_of(field)
        if labels is None:
            return None
        if not labels:
            raise field.fail(
                f"{show_type(field.annotation)} has no members", "Give it at least one."
            )
        # The type belongs to the key: True equals 1 and is another label.
        found: dict[Hashable, np.int64] = {
            (type(label), label): np.int64(number) for number, label in enumerate(labels)
        }
        for number, label in enumerate(labels):
            # With `use_enum_values`, a model holds the members' values.
            if isinstance(label, enum.Enum) and getattr(label.value, "__hash__", None):
                found.setdefault((type(label.value), label.value), np.int64(number))

        def to_sample(value: Any) -> np.int64:
            return found[type(value), value]

        def to_values(array: NDArray[Any]) -> list[Any]:
            return [labels[number] for number in array.tolist()]

        space = spaces.Discrete(len(labels))
        read = discrete_reader(space, field.name)
        return Mapped(
            space,
            to_sample,
            lambda sample: labels[read(sample)],
            Notes(labels=labels),
            Many(to_values, to_sample),
        )


def labels_of(field: Field) -> tuple[Any, ...] | None:
    """Return the labels that a field's type consists of, None where it is of another kind."""
    kind = field.annotation
    if kind is None or kind is type(None):
        return (None,)
    if get_origin(kind) is Literal:
        return get_args(kind)
    # The values of a Flag are more than its members.
    if is_subclass(kind, enum.Enum) and not issubclass(kind, enum.Flag):
        return tuple(kind)
    if get_origin(kind) not in (Union, UnionType):
        return None
    found: dict[Hashable, Any] = {}
    for option in get_args(kind):
        labels = labels_of(field.inside("", option))
        if labels is None:
            return None
        for label in labels:
            found.setdefault((type(label), label), label)
    return tuple(found.values())
