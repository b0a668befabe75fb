"""One text for equal values of plain data, so that values are compared without being read back.

An interpreter that runs an agent's code says what a value is; the server writes what it ought to be
in the same form and compares the two texts. So nothing that the interpreter says is ever parsed.
"""

from __future__ import annotations

import math
from typing import Any


__all__ = ["MAX_DEPTH", "canonical"]

MAX_DEPTH = 50
"""How deep containers may be nested."""


def canonical(value: Any) -> str:
    """Write plain data such that what Python calls equal is the same text.

    Floats are compared in ten significant digits, so that ``0.1 + 0.2`` is ``0.3``; integers equal
    to floats, and booleans to integers, as in Python. Objects of subclasses are no plain data:
    their methods could say anything.

    Raises:
        TypeError: It holds something else than None, numbers, text, bytes, lists, tuples, sets and
            dictionaries.
        ValueError: It is nested too deeply, or an integer is too long to be written.
    """
    return _write(value, 0)


def _write(value: Any, depth: int) -> str:
    kind = type(value)
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    if value is None:
        return "None"
    if kind is bool or kind is int:
        return str(int(value))
    if kind is float:
        return _of_float(value)
    if kind is str or kind is bytes:
        return repr(value)
    if kind is list or kind is tuple:
        inner = ",".join(_write(item, depth + 1) for item in value)
        return f"[{inner}]" if kind is list else f"({inner})"
    if kind is set or kind is frozenset:
        return "{" + ",".join(sorted(_write(item, depth + 1) for item in value)) + "}"
    if kind is dict:
        pairs = (f"{_write(key, depth + 1)}:{_write(value[key], depth + 1)}" for key in value)
        return "{:" + ",".join(sorted(pairs)) + "}"
    raise TypeError(f"a {kind.__name__} is no plain data")


def _of_float(value: float) -> str:
    if not math.isfinite(value):
        return repr(value)
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return format(value, ".10g")
