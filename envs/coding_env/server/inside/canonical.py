"""A text for each value of plain data, so that values are compared without being read back.

An interpreter that runs an agent's code says what a value is; the server knows which texts stand
for the value that it ought to be (`coding_env.server.expected`). So nothing that the interpreter
says is ever parsed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


__all__ = ["MAX_DEPTH", "Piece", "canonical", "pieces", "ten_digits", "text_of"]

MAX_DEPTH = 50
"""How deep containers may be nested."""

_DIGITS = 10

Piece = str | int | float
"""Part of a text: what is written as it is, or a number."""


def canonical(value: Any) -> str:
    """Write plain data such that what Python calls equal differs in the form of numbers alone.

    Floats are written with ten significant digits, so that ``0.1 + 0.2`` is ``0.3``, and integers
    of up to ten digits like the floats that equal them. Longer ones have both forms,
    ``1e+20=100000000000000000000``, of which the first is that of a float. Booleans are integers,
    as in Python. Objects of subclasses are no plain data: their methods could say anything.

    Raises:
        TypeError: It holds something else than None, numbers, text, bytes, lists, tuples, sets and
            dictionaries.
        ValueError: It is nested too deeply, or an integer is too long to be written.
    """
    return "".join(map(text_of, pieces(value)))


def pieces(value: Any) -> list[Piece]:
    """Return what `canonical` writes, with the numbers as they are.

    Raises:
        TypeError: As `canonical`.
        ValueError: Likewise, but for integers.
    """
    return _pieces(value, 0)


def text_of(piece: Piece) -> str:
    """Write a piece.

    Raises:
        ValueError: It is an integer that is too long to be written.
    """
    if isinstance(piece, str):
        return piece
    short = ten_digits(piece)
    return short if type(piece) is float or abs(piece) < 10**_DIGITS else f"{short}={piece}"


def ten_digits(number: int | float) -> str:
    """Write a number with ten significant digits: the same text for all types that it may have.

    Raises:
        ValueError: It is an integer that is too long to be written.
    """
    if isinstance(number, float):
        return format(number + 0.0, f".{_DIGITS}g")  # without the sign of -0.0
    digits = str(abs(number))
    if len(digits) <= _DIGITS:
        return str(number)
    head, rest = int(digits[:_DIGITS]), digits[_DIGITS:]
    # From the middle to the even one, as floats are. It may be too large for a float.
    middle = "5".ljust(len(rest), "0")
    head += rest > middle or (rest == middle and head % 2 == 1)
    exponent = len(digits) - 1 + (head == 10**_DIGITS)
    first, others = str(head)[0], str(head)[1:].rstrip("0")
    sign, point = "-" if number < 0 else "", "." if others else ""
    return f"{sign}{first}{point}{others}e+{exponent:02d}"


def _pieces(value: Any, depth: int) -> list[Piece]:
    kind = type(value)
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    if value is None:
        return ["None"]
    if kind is bool or kind is int:
        return [int(value)]
    if kind is float:
        return [value]
    if kind is str or kind is bytes:
        return [repr(value)]
    if kind is list or kind is tuple:
        inner = _joined(_pieces(item, depth + 1) for item in value)
        return ["[", *inner, "]"] if kind is list else ["(", *inner, ")"]
    if kind is set or kind is frozenset:
        items = (_pieces(item, depth + 1) for item in value)
        return ["{", *_joined(sorted(items, key=_order)), "}"]
    if kind is dict:
        pairs = ([*_pieces(k, depth + 1), ":", *_pieces(v, depth + 1)] for k, v in value.items())
        return ["{:", *_joined(sorted(pairs, key=_order)), "}"]
    raise TypeError(f"a {kind.__name__} is no plain data")


def _joined(items: Iterable[list[Piece]]) -> list[Piece]:
    joined: list[Piece] = []
    for item in items:
        if joined:
            joined.append(",")
        joined += item
    return joined


def _order(item: list[Piece]) -> tuple[str, list[int | float]]:
    """Return what sorts items that have no order, such that equal ones have the same place.

    Equal numbers may be of two types. Where ten digits are the same, Python itself compares them.
    """
    numbers = [piece for piece in item if not isinstance(piece, str)]
    return "".join(p if isinstance(p, str) else ten_digits(p) for p in item), numbers
