"""The parts of a form: fields, groups of them, and choices between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


__all__ = ["ABSENT", "Group", "Leaf", "Part", "Union", "is_optional", "leaves"]

ABSENT: Any = object()
"""What an optional field is worth that was left empty."""


@dataclass(frozen=True)
class Leaf:
    """One field.

    Attributes:
        key: Its name among all fields of the form.
        label: What it is called.
        kind: ``choice``, ``flag``, ``integer``, ``number``, ``text``, ``choices``, ``bits``,
            ``json`` or ``fixed``.
        help: What is said about it.
        choices: What can be chosen, by the labels that are shown.
        low: Lower bound of a number, where it has one.
        high: Upper bound, likewise.
        default: What it holds at first.
        optional: It may be left empty.
        empty: What it is worth then.
        lines: Height of a text.
        schema: JSON Schema of the value.
    """

    key: str
    label: str
    kind: str
    help: str = ""
    choices: tuple[tuple[str, Any], ...] = ()
    low: int | float | None = None
    high: int | float | None = None
    default: Any = None
    optional: bool = False
    empty: Any = ABSENT
    lines: int = 1
    schema: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def values(self) -> list[Any]:
        """What can be chosen."""
        return [value for _, value in self.choices]

    @property
    def voidable(self) -> bool:
        """It can be left empty and mean that, where it does not hold what it has by default."""
        return self.optional and (self.default is None or self.empty is None)


@dataclass(frozen=True)
class Group:
    """Several parts: those of an object, or of a list of fixed length.

    Attributes:
        key: As a `Leaf` has it; empty for the whole action.
        label: What it is called.
        names: What the parts are called in the action; None for those of a list.
        parts: The parts.
        help: What is said about it.
    """

    key: str
    label: str
    names: tuple[str, ...] | None
    parts: tuple[Part, ...]
    help: str = ""


@dataclass(frozen=True)
class Union:
    """One of several parts, which the first field chooses.

    Attributes:
        key: As a `Leaf` has it.
        label: What it is called.
        selector: Chooses the number of an option, or nothing where it is optional.
        options: The parts.
        help: What is said about it.
    """

    key: str
    label: str
    selector: Leaf
    options: tuple[Part, ...]
    help: str = ""


Part = Leaf | Group | Union


def is_optional(part: Part) -> bool:
    """Tell whether an action may say nothing about a part."""
    if isinstance(part, Leaf):
        return part.optional or part.kind == "fixed"
    return isinstance(part, Union) and part.selector.optional


def leaves(part: Part) -> list[Leaf]:
    """Return all fields of a part, in the order in which they are shown."""
    if isinstance(part, Leaf):
        return [] if part.kind == "fixed" else [part]
    if isinstance(part, Group):
        return [leaf for each in part.parts for leaf in leaves(each)]
    return [part.selector, *(leaf for each in part.options for leaf in leaves(each))]
