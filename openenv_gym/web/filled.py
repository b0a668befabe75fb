"""What stands in the fields of a form: read as an action, and filled in from one."""

from __future__ import annotations

import decimal
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from openenv_gym.web.fitting import option_of
from openenv_gym.web.parts import ABSENT, Group, Leaf, Part, Union, is_optional, leaves


__all__ = ["EMPTY", "bounds_of", "first_of", "number_text", "read_form", "state_of"]

EMPTY: Any = object()
"""Stands in a field for a set with nothing in it, where nothing means that none is given."""

_MAX_EXPONENT = 400  # beyond any float's; who writes 1e999999999 is not to have it spelled out
_EXACT = 2**53  # whole numbers up to here are spelled out as such, where a float holds one
_MAX_EXAMPLE = 512


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
    """Return what stands in which field where the form holds an action.

    What the action says nothing about, and need not, stands there as at first; of what is needed
    and not said, nothing is returned.
    """
    return dict(_fill(form, action))


def first_of(leaf: Leaf) -> Any:
    """Return what stands in a field at first: its default, or what may be sent in its place."""
    if leaf.default is not None:
        return _held(leaf, leaf.default)
    if leaf.optional:
        return None
    if leaf.kind == "choice":
        return leaf.values[0]
    if leaf.kind in ("integer", "number"):
        return 0 if (leaf.low or 0) <= 0 <= (leaf.high or 0) else leaf.low
    return json.dumps(_example(leaf.schema)) if leaf.kind == "json" else None


def number_text(value: Any) -> str:
    """Return a number as it is typed: none other is read from it."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return str(int(value))
    return str(value)


def bounds_of(leaf: Leaf) -> str:
    """Return the bounds of a number in words; nothing where it has none."""
    low, high = leaf.low, leaf.high
    if low is not None and high is not None:
        return f"from {number_text(low)} to {number_text(high)}"
    if low is not None:
        return f"at least {number_text(low)}"
    return "" if high is None else f"at most {number_text(high)}"


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
        if chosen is not None:
            return _read(part.options[int(chosen)], values, problems)
        if part.selector.optional:
            return part.selector.empty
        problems[part.selector.key] = "Choose one."
        return ABSENT
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
        return _read_choices(leaf, list(value or ()))
    if leaf.kind == "bits":
        chosen = set(value or ())
        return [int(number in chosen) for _, number in leaf.choices]
    if leaf.kind == "text" and not leaf.voidable:
        return "" if value is None else value
    if leaf.kind == "choice" and (value is not None or (None in leaf.values and not leaf.optional)):
        return value  # an empty text may be one
    if value is None or value == "":
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


def _read_choices(leaf: Leaf, chosen: list[Any]) -> Any:
    if not leaf.voidable:
        return chosen
    if not chosen:
        return leaf.empty
    if EMPTY not in chosen:
        return chosen
    if len(chosen) > 1:
        raise ValueError("With (empty) nothing else can be ticked.")
    return []


def _read_number(leaf: Leaf, value: Any) -> int | float:
    text = number_text(value).strip()
    number = _whole(text) if leaf.kind == "integer" else _finite(text)
    low, high = leaf.low, leaf.high
    if (low is not None and number < low) or (high is not None and number > high):
        raise ValueError(f"{text} is not {bounds_of(leaf)}.")
    return number


def _finite(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is no number.") from None
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is no finite number.")
    return number


def _whole(text: str) -> int:
    """Return the whole number that a text says, to the last digit, which a float would round."""
    try:
        return int(text)
    except ValueError:  # 1e3 and 3.0 say one, too
        pass
    try:
        number = decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise ValueError(f"{text!r} is no number.") from None
    if not number.is_finite() or number.adjusted() > _MAX_EXPONENT:
        raise ValueError(f"{text!r} is no finite number.")
    if number != number.to_integral_value():
        raise ValueError(f"{text} is no whole number.")
    return int(number)


# -- JSON to fields -----------------------------------------------------------------------------


def _fill(part: Part, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(part, Leaf):
        if part.kind != "fixed":
            yield part.key, _held(part, value)
    elif isinstance(part, Union):
        yield from _fill_union(part, value)
    elif part.names is None:
        if isinstance(value, list):
            for each, element in zip(part.parts, value, strict=False):
                yield from _fill(each, element)
    elif isinstance(value, Mapping):
        for name, each in zip(part.names, part.parts, strict=True):
            if name in value:
                yield from _fill(each, value[name])
            else:
                yield from _at_first(each)


def _held(leaf: Leaf, value: Any) -> Any:
    if leaf.kind == "json":
        return json.dumps(value)
    if leaf.kind == "bits":
        return [i for i, bit in enumerate(value) if bit]
    if leaf.kind == "choices" and leaf.voidable and value is not None:
        return list(value) or [EMPTY]
    return value


def _fill_union(part: Union, value: Any) -> Iterator[tuple[str, Any]]:
    number = option_of(part.options, value)
    # Where it is of none, nothing is chosen rather than something else, which Step would take.
    yield part.selector.key, number
    if number is not None:
        yield from _fill(part.options[number], value)


def _at_first(part: Part) -> Iterator[tuple[str, Any]]:
    """Give a part that nothing is said about what it holds at first, where it need not be said."""
    if not is_optional(part):
        return
    fields = leaves(part)
    if isinstance(part, Union):
        first = part.selector.default
        fields = [part.selector, *([] if first is None else leaves(part.options[first]))]
    for leaf in fields:
        yield leaf.key, first_of(leaf)


def _example(schema: Any, depth: int = 0) -> Any:
    """Return something of the form of a schema, to begin with."""
    kind = schema.get("type") if hasattr(schema, "get") else None
    if kind == "array":
        size = min(schema.get("minItems") or 0, _MAX_EXAMPLE)
        return [_example(schema.get("items") or {}, depth + 1) for _ in range(size)]
    if kind in ("integer", "number"):
        return schema.get("minimum", 0) or 0
    return {"object": {}, "string": "", "boolean": False}.get(str(kind))
