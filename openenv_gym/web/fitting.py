"""Which of several parts of a form a value is of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openenv_gym.web.parts import Leaf, Part, Union, is_optional


__all__ = ["option_of"]


def option_of(options: Sequence[Part], value: Any) -> int | None:
    """Return the number of the part that a value is of; of several that which says most of it.

    None where it is of none.
    """
    fits = [_fit(each, value) for each in options]
    most = max(fits, default=0)
    return fits.index(most) if most else None


def _fit(part: Part, value: Any) -> int:
    """Return how much of a value a part holds, to compare options by; 0 where it is another."""
    if isinstance(part, Leaf):
        return _fit_leaf(part, value)
    if isinstance(part, Union):
        return max((_fit(each, value) for each in part.options), default=0)
    if part.names is None:
        if not isinstance(value, list) or len(value) != len(part.parts):
            return 0
        fits = [_fit(each, element) for each, element in zip(part.parts, value, strict=True)]
        return 1 + sum(fits) if all(fits) else 0
    if not isinstance(value, Mapping) or not set(value) <= set(part.names):
        return 0
    total = 1
    for name, each in zip(part.names, part.parts, strict=True):
        fit = _fit(each, value[name]) if name in value else int(is_optional(each))
        if not fit:
            return 0
        # That a value says something counts for more than that it need not.
        total += fit + (name in value)
    return total


def _fit_leaf(leaf: Leaf, value: Any) -> int:
    if leaf.kind == "fixed":
        return 2 * _same(leaf.default, value)
    if value is None:
        return int(leaf.optional or leaf.kind == "json")
    if leaf.kind == "choice":
        return 2 * any(_same(each, value) for each in leaf.values)
    if leaf.kind == "choices":
        return int(isinstance(value, list) and all(each in leaf.values for each in value))
    if leaf.kind == "bits":
        return int(isinstance(value, list) and len(value) == len(leaf.choices))
    if leaf.kind == "json":
        wanted = {"array": list, "object": Mapping}.get(str(leaf.schema.get("type")), object)
        return int(isinstance(value, wanted))
    if leaf.kind == "text":
        return int(isinstance(value, str))
    if leaf.kind == "flag" or isinstance(value, bool):
        return int(leaf.kind == "flag" and isinstance(value, bool))
    if not isinstance(value, int if leaf.kind == "integer" else (int, float)):
        return 0
    low, high = leaf.low, leaf.high
    return int((low is None or low <= value) and (high is None or value <= high))


def _same(ours: Any, theirs: Any) -> bool:
    """Tell whether two values of JSON are the same: true is not 1."""
    return bool(ours == theirs) and isinstance(ours, bool) == isinstance(theirs, bool)
