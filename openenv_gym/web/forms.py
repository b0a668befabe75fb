"""What a person fills in for an action: from JSON Schema to fields, and from fields to JSON.

Nothing here knows how fields are shown (`widgets.py` does).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openenv_gym.web.schema import Schema, items_of, kinds_of, label_of, without_null


__all__ = ["ABSENT", "Group", "Leaf", "Part", "Union", "form_of", "leaves", "read_form", "state_of"]

MAX_ROW = 16
"""Elements of a list of fixed length that get a field each; a longer one is written as JSON."""

MAX_CHOICES = 1000
"""Numbers that are chosen from a list; of more, one is typed."""

_LONG_TEXT = 80  # characters from which on a text has several lines

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
    low: float | None = None
    high: float | None = None
    default: Any = None
    optional: bool = False
    empty: Any = ABSENT
    lines: int = 1
    schema: Mapping[str, Any] = field(default_factory=dict, compare=False)


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
        selector: Chooses the number of an option.
        options: The parts.
        help: What is said about it.
    """

    key: str
    label: str
    selector: Leaf
    options: tuple[Part, ...]
    help: str = ""


Part = Leaf | Group | Union


def form_of(schema: Mapping[str, Any], labels: Mapping[str, list[str]] | None = None) -> Group:
    """Return the form of an action.

    Args:
        schema: JSON Schema of an object (Draft 2020-12, as Pydantic writes it).
        labels: What the numbers of a field are called, from its lowest on, by its name.
    """
    whole = Schema(schema)
    names, parts = [], []
    properties = whole.root.get("properties") or {}
    required = whole.root.get("required") or ()
    for name, node in properties.items():
        if name == "metadata":  # of the base class, and no part of the action
            continue
        names.append(name)
        words = (labels or {}).get(name, ())
        parts.append(_part(whole, node, name, name, name not in required, tuple(words)))
    return Group("", "", tuple(names), tuple(parts))


def leaves(part: Part) -> list[Leaf]:
    """Return all fields of a part, in the order in which they are shown."""
    if isinstance(part, Leaf):
        return [] if part.kind == "fixed" else [part]
    if isinstance(part, Group):
        return [leaf for each in part.parts for leaf in leaves(each)]
    return [part.selector, *(leaf for each in part.options for leaf in leaves(each))]


def read_form(form: Group, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the action that a form holds, and what is wrong with which field.

    Args:
        form: The form.
        values: What stands in the fields, by their keys.
    """
    problems: dict[str, str] = {}
    action = _read(form, values, problems)
    return ({} if action is ABSENT else action), problems


def state_of(form: Group, action: Mapping[str, Any]) -> dict[str, Any]:
    """Return what stands in which field where the form holds an action; others are left out."""
    found: dict[str, Any] = {}
    _fill(form, action, found)
    return found


# -- schema to fields ---------------------------------------------------------------------------


def _part(
    schema: Schema,
    node: Any,
    key: str,
    label: str,
    optional: bool = False,
    labels: tuple[str, ...] = (),
    depth: int = 0,
) -> Part:
    node = schema.resolve(node)
    node, nullable = without_null(schema, node)
    empty = ABSENT if optional else None
    optional = optional or nullable
    facts: dict[str, Any] = {
        "help": str(node.get("description") or "").partition("\n")[0],
        "optional": optional,
        "empty": empty,
        "default": node.get("default"),
        "schema": node,
    }
    if "const" in node:
        return Leaf(key, label, "fixed", default=node["const"], schema=node)
    if node.get("type") == "null":  # such as the edges of a graph that has none
        return Leaf(key, label, "fixed", default=None, schema=node)
    choices = _choices(schema, node, labels)
    if choices:
        return Leaf(key, label, "choice", choices=choices, **facts)
    options = kinds_of(schema, node)
    if options and depth < 8:
        return _union(schema, options, key, label, facts, depth)
    kind = node.get("type")
    if kind == "boolean":
        return Leaf(key, label, "flag", **facts)
    if kind in ("integer", "number"):
        return Leaf(key, label, kind, low=_low(node), high=_high(node), **facts)
    if kind == "string":
        long = node.get("maxLength", _LONG_TEXT + 1) > _LONG_TEXT
        return Leaf(key, label, "text", lines=2 if long else 1, **facts)
    if kind == "array" and depth < 8:
        found = _list(schema, node, key, label, facts, labels, depth)
        if found is not None:
            return found
    if kind == "object" and node.get("properties") and not optional and depth < 8:
        required = node.get("required") or ()
        parts = tuple(
            _part(schema, each, f"{key}.{name}", name, name not in required, depth=depth + 1)
            for name, each in node["properties"].items()
        )
        return Group(key, label, tuple(node["properties"]), parts, facts["help"])
    return Leaf(key, label, "json", lines=3, **facts)


def _union(
    schema: Schema,
    options: list[Mapping[str, Any]],
    key: str,
    label: str,
    facts: dict[str, Any],
    depth: int,
) -> Union:
    names = [label_of(schema, each, number) for number, each in enumerate(options)]
    chosen = tuple((name, number) for number, name in enumerate(names))
    if facts["optional"]:
        chosen = (*chosen, ("(nothing)", -1))
    selector = Leaf(
        f"{key}?",
        label,
        "choice",
        choices=chosen,
        default=0,
        empty=facts["empty"],
        help=facts["help"],
    )
    parts = tuple(
        _part(schema, each, f"{key}|{number}", names[number], depth=depth + 1)
        for number, each in enumerate(options)
    )
    return Union(key, label, selector, parts, facts["help"])


def _list(
    schema: Schema,
    node: Mapping[str, Any],
    key: str,
    label: str,
    facts: dict[str, Any],
    labels: tuple[str, ...],
    depth: int,
) -> Part | None:
    """Return a field for each element, or for those that are chosen; None where neither fits."""
    each = schema.resolve(node.get("items") or {})
    if node.get("uniqueItems") and (choices := _choices(schema, each, labels)):
        return Leaf(key, label, "choices", choices=choices, **facts)
    parts = items_of(schema, node, MAX_ROW)
    if parts is None or facts["optional"]:
        return None
    if "prefixItems" not in node and _is_bit(each):
        names = labels if len(labels) == len(parts) else [str(i) for i in range(len(parts))]
        choices = tuple((str(name), i) for i, name in enumerate(names))
        return Leaf(key, label, "bits", choices=choices, **facts)
    found = tuple(
        _part(schema, part, f"{key}.{i}", f"{label}[{i}]", labels=labels, depth=depth + 1)
        for i, part in enumerate(parts)
    )
    return Group(key, label, None, found, facts["help"])


def _choices(
    schema: Schema, node: Mapping[str, Any], labels: tuple[str, ...]
) -> tuple[tuple[str, Any], ...]:
    values = schema.enumerated(node)
    if values is not None:
        return tuple((str(value), value) for value in values)
    low, high = _low(node), _high(node)
    if node.get("type") != "integer" or low is None or high is None:
        return ()
    count = int(high) - int(low) + 1
    if not 0 < count <= MAX_CHOICES or (count > MAX_ROW and not labels):
        return ()
    named = labels if len(labels) == count else ()
    numbers = range(int(low), int(low) + count)
    if not named:
        return tuple((str(number), number) for number in numbers)
    pairs = zip(numbers, named, strict=True)
    return tuple((f"{number}: {name}", number) for number, name in pairs)


def _is_bit(node: Mapping[str, Any]) -> bool:
    if node.get("type") == "boolean":
        return True
    return node.get("type") == "integer" and (_low(node), _high(node)) == (0, 1)


def _low(node: Mapping[str, Any]) -> float | None:
    if "minimum" in node:
        return float(node["minimum"])
    if "exclusiveMinimum" not in node:
        return None
    bound = float(node["exclusiveMinimum"])
    return bound + 1 if node.get("type") == "integer" else bound


def _high(node: Mapping[str, Any]) -> float | None:
    if "maximum" in node:
        return float(node["maximum"])
    if "exclusiveMaximum" not in node:
        return None
    bound = float(node["exclusiveMaximum"])
    return bound - 1 if node.get("type") == "integer" else bound


# -- fields to JSON -----------------------------------------------------------------------------


def _read(part: Part, values: Mapping[str, Any], problems: dict[str, str]) -> Any:
    if isinstance(part, Leaf):
        try:
            return _read_leaf(part, values.get(part.key))
        except ValueError as error:
            problems[part.key] = str(error)
            return ABSENT
    if isinstance(part, Union):
        chosen = values.get(part.selector.key)
        if chosen == -1:
            return part.selector.empty
        if chosen is None:
            problems[part.selector.key] = "Choose one."
            return ABSENT
        return _read(part.options[int(chosen)], values, problems)
    if part.names is None:
        return [_read(each, values, problems) for each in part.parts]
    read = {
        name: _read(each, values, problems)
        for name, each in zip(part.names, part.parts, strict=True)
    }
    return {name: value for name, value in read.items() if value is not ABSENT}


def _read_leaf(leaf: Leaf, value: Any) -> Any:
    """Return the value of a field.

    Raises:
        ValueError: It is none.
    """
    if leaf.kind == "fixed":
        return leaf.default
    if leaf.kind == "flag":
        return bool(value)
    if leaf.kind == "choices":
        return list(value or ())
    if leaf.kind == "bits":
        chosen = set(value or ())
        return [int(number in chosen) for _, number in leaf.choices]
    if value is None or (value == "" and (leaf.kind != "text" or leaf.optional)):
        if leaf.optional:
            return leaf.empty
        raise ValueError("Choose one." if leaf.kind == "choice" else "A value is needed.")
    if leaf.kind in ("integer", "number"):
        return _read_number(leaf, value)
    if leaf.kind == "json":
        try:
            return json.loads(value)
        except json.JSONDecodeError as error:
            raise ValueError(
                f"This is no JSON: {error.msg} (line {error.lineno}, column {error.colno})."
            ) from None
    return value


def _read_number(leaf: Leaf, value: Any) -> int | float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} is no number.") from None
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is no finite number.")
    if leaf.kind == "integer" and not number.is_integer():
        raise ValueError(f"{number:g} is no whole number.")
    bounds = bounds_of(leaf)
    low, high = leaf.low, leaf.high
    if (low is not None and number < low) or (high is not None and number > high):
        raise ValueError(f"{number:g} is not {bounds}.")
    return int(value if isinstance(value, int) else number) if leaf.kind == "integer" else number


def bounds_of(leaf: Leaf) -> str:
    """Return the bounds of a number in words; nothing where it has none."""
    low, high = leaf.low, leaf.high
    if low is not None and high is not None:
        return f"from {low:g} to {high:g}"
    if low is not None:
        return f"at least {low:g}"
    return "" if high is None else f"at most {high:g}"


def _fill(part: Part, value: Any, found: dict[str, Any]) -> None:
    if isinstance(part, Leaf):
        if part.kind == "json":
            found[part.key] = json.dumps(value)
        elif part.kind == "bits":
            found[part.key] = [i for i, bit in enumerate(value) if bit]
        elif part.kind != "fixed":
            found[part.key] = value
    elif isinstance(part, Group):
        if part.names is None:
            for each, element in zip(part.parts, value, strict=False):
                _fill(each, element, found)
        else:
            for name, each in zip(part.names, part.parts, strict=True):
                if name in value:
                    _fill(each, value[name], found)
