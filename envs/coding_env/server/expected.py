"""What hidden tests expect: a value, and which canonical texts stand for one that equals it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from coding_env.server.inside.canonical import pieces, ten_digits, text_of


__all__ = ["Expected"]

_LOOSE_BITS = 40
_INTEGER = re.compile("(?:=-?[0-9]+)?")


@dataclass(frozen=True)
class _Number:
    """Texts that stand for a number, the longest first.

    Attributes:
        texts: They.
        of_integers: An integer may follow, whose first ten digits they are.
    """

    texts: tuple[str, ...]
    of_integers: bool

    def end_in(self, text: str, begin: int) -> int:
        """Return where one of them ends that begins there; -1 where there is none."""
        for each in self.texts:
            if text.startswith(each, begin):
                end = begin + len(each)
                found = _INTEGER.match(text, end) if self.of_integers else None
                return found.end() if found else end
        return -1


@dataclass(frozen=True)
class Expected:
    """A value of plain data that a test expects.

    Two integers are equal if they are the same; a float equals a number, be it a float or an
    integer, of the same ten significant digits. That is no equivalence (``1e20`` equals two
    integers that are not equal), so no text of a value could do: it depends on what is expected.

    Attributes:
        parts: What its text is made of: what must be there as it is, and numbers.
    """

    parts: tuple[str | _Number, ...]

    @classmethod
    def of(cls, value: Any) -> Expected:
        """Return what is expected where this value is.

        Raises:
            TypeError: See `canonical`.
            ValueError: Likewise.
        """
        parts: list[str | _Number] = []
        for piece in pieces(value):
            text = text_of(piece)
            # Integers of few digits have one text, which is that of the floats as well.
            plain = type(piece) is int and text == str(piece)
            if isinstance(piece, str) or plain:
                parts.append(text)
            else:
                parts.append(_number(piece))
        return cls(tuple(parts))

    def matches(self, text: str | None) -> bool:
        """Tell whether a text is that of a value which equals this one."""
        if text is None:
            return False
        end = 0
        for part in self.parts:
            if isinstance(part, str):
                end = end + len(part) if text.startswith(part, end) else -1
            else:
                end = part.end_in(text, end)
            if end < 0:
                return False
        return end == len(text)


def _number(number: int | float) -> _Number:
    """Return the texts of a float, or of an integer of more than ten digits."""
    # Where rounding goes up from, the last bits of a sum must not decide: so also the texts of
    # numbers that are next to it.
    if isinstance(number, float):
        near = [number * (1 + side * 2**-_LOOSE_BITS) for side in (-1, 1)]
        found = {ten_digits(each) for each in near if math.isfinite(each)} | {ten_digits(number)}
        return _Number(_longest_first(found - {"nan"}), True)  # nothing equals nan, nor does itself
    step = max(abs(number) >> _LOOSE_BITS, 1)
    floats = {ten_digits(number + side * step) for side in (-1, 0, 1)}
    return _Number(_longest_first(floats | {text_of(number)}), False)


def _longest_first(texts: set[str]) -> tuple[str, ...]:
    # One may be the begin of another.
    return tuple(sorted(texts, key=len, reverse=True))
