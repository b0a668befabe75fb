"""What a person fills in for an action: from JSON Schema to fields.

Nothing here knows what stands in fields (`filled.py` does), nor how they are shown (`widgets.py`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from openenv_gym.web.fitting import option_of
from openenv_gym.web.parts import ABSENT, Group, Leaf, Part, Union
from openenv_gym.web.schema import Schema, items_of, kinds_of, label_of, without_null


__all__ = ["form_of"]

MAX_ROW = 16
"""Elements of a list of fixed length that get a field each; a longer one is written as JSON."""

MAX_CHOICES = 1000
"""Numbers that are chosen from a list; of more, one is typed."""

_LONG_TEXT = 80  # characters from which on a text has several lines


def form_of(
    schema: Mapping[str, Any],
    labels: Mapping[str, list[str]] | None = None,
    *,
    without: Collection[str] = ("metadata",),
) -> Group:
    """Return the form of an action.

    Args:
        schema: JSON Schema of an object (Draft 2020-12, as Pydantic writes it).
        labels: What the numbers of a field are called, from its lowest on, by its name.
        without: Fields that are left out; by default that of the base class of actions, which is
            no part of what is done.
    """
    whole = Schema(schema)
    names, parts = [], []
    properties = whole.root.get("properties") or {}
    required = whole.root.get("required") or ()
    for name, node in properties.items():
        if name in without:
            continue
        names.append(name)
        words = (labels or {}).get(name, ())
        parts.append(_part(whole, node, name, name, name not in required, tuple(words)))
    return Group("", "", tuple(names), tuple(parts))


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
    # Where something is held by default, to leave it away is to say that.
    empty = ABSENT if optional and not (nullable and node.get("default") is not None) else None
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
        flag = Leaf(key, label, "flag", **facts)
        # A tick is there or not, which is one too few.
        choices = (("yes", True), ("no", False))
        return replace(flag, kind="choice", choices=choices) if flag.voidable else flag
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
        held = facts["default"] if isinstance(facts["default"], Mapping) else {}
        parts = tuple(
            _part(
                schema,
                _with_default(each, held[name]) if name in held else each,
                f"{key}.{name}",
                name,
                name not in required,
                depth=depth + 1,
            )
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
    parts = tuple(
        _part(schema, each, f"{key}|{number}", names[number], depth=depth + 1)
        for number, each in enumerate(options)
    )
    default = facts["default"]
    first: int | None = None if facts["optional"] and default is None else 0
    if default is not None and (first := option_of(parts, default)) is not None:
        held = _with_default(options[first], default)
        part = _part(schema, held, f"{key}|{first}", names[first], depth=depth + 1)
        parts = (*parts[:first], part, *parts[first + 1 :])
    selector = Leaf(
        f"{key}?",
        label,
        "choice",
        choices=tuple((name, number) for number, name in enumerate(names)),
        default=first,
        **{name: facts[name] for name in ("empty", "help", "optional")},
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
    low, high = math.ceil(low), math.floor(high)
    count = high - low + 1
    if not 0 < count <= MAX_CHOICES or (count > MAX_ROW and not labels):
        return ()
    named = labels if len(labels) == count else ()
    numbers = range(low, low + count)
    if not named:
        return tuple((str(number), number) for number in numbers)
    pairs = zip(numbers, named, strict=True)
    return tuple((f"{number}: {name}", number) for number, name in pairs)


def _with_default(node: Any, default: Any) -> Mapping[str, Any]:
    return {**(node if isinstance(node, Mapping) else {}), "default": default}


def _is_bit(node: Mapping[str, Any]) -> bool:
    if node.get("type") == "boolean":
        return True
    return node.get("type") == "integer" and (_low(node), _high(node)) == (0, 1)


def _low(node: Mapping[str, Any]) -> int | float | None:
    if "minimum" in node:
        return _bound(node["minimum"])
    if "exclusiveMinimum" not in node:
        return None
    bound = _bound(node["exclusiveMinimum"])
    return math.floor(bound) + 1 if node.get("type") == "integer" else bound


def _high(node: Mapping[str, Any]) -> int | float | None:
    if "maximum" in node:
        return _bound(node["maximum"])
    if "exclusiveMaximum" not in node:
        return None
    bound = _bound(node["exclusiveMaximum"])
    return math.ceil(bound) - 1 if node.get("type") == "integer" else bound


def _bound(value: Any) -> int | float:
    """Return a bound as it is: a float of a large whole number is another one."""
    return value if isinstance(value, int) else float(value)
