"""What the constraints of a Pydantic field say: bounds, lengths and patterns."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import annotated_types


__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a field's constraints say, whichever of Pydantic's ways they were given in.

    Attributes:
        low: Greatest lower bound, inclusive unless `open_low`; None without one.
        high: Least upper bound, likewise.
        open_low: `low` itself is not allowed.
        open_high: `high` itself is not allowed.
        min_length: Smallest length.
        max_length: Greatest length, None without one.
        patterns: Regular expressions that all must match.
    """

    low: Any = None
    high: Any = None
    open_low: bool = False
    open_high: bool = False
    min_length: int = 0
    max_length: int | None = None
    patterns: tuple[str, ...] = ()

    @classmethod
    def of(cls, metadata: tuple[Any, ...]) -> Limits:
        """Collect the constraints among a field's metadata; the strictest of a kind counts."""
        lows: list[tuple[Any, bool]] = []
        highs: list[tuple[Any, bool]] = []
        shortest, longest = [0], []
        patterns: list[str] = []
        for item in _expand(metadata):
            if isinstance(item, annotated_types.Ge):
                lows.append((item.ge, False))
            elif isinstance(item, annotated_types.Gt):
                lows.append((item.gt, True))
            elif isinstance(item, annotated_types.Le):
                highs.append((item.le, False))
            elif isinstance(item, annotated_types.Lt):
                highs.append((item.lt, True))
            elif isinstance(item, annotated_types.MinLen):
                shortest.append(item.min_length)
            elif isinstance(item, annotated_types.MaxLen):
                longest.append(item.max_length)
            # Pydantic's own class for constraints that annotated-types does not know.
            elif isinstance(item, annotated_types.BaseMetadata) and (
                (pattern := getattr(item, "pattern", None)) is not None
            ):
                patterns.append(pattern.pattern if isinstance(pattern, re.Pattern) else pattern)
        # At equal bounds the open one is stricter: True sorts after False, hence `not` for highs.
        low, open_low = max(lows, default=(None, False))
        high, closed_high = min(((h, not is_open) for h, is_open in highs), default=(None, True))
        return cls(
            None if low == -math.inf else low,
            None if high == math.inf else high,
            open_low,
            not closed_high,
            max(shortest),
            min(longest, default=None),
            tuple(patterns),
        )

    def of_integers(self) -> tuple[int | None, int | None]:
        """Return the least and the greatest integer allowed, None where there is none."""
        low = high = None
        if self.low is not None:
            low = int(self.low) + self.open_low
        if self.high is not None:
            high = int(self.high) - self.open_high
        return low, high

    def of_floats(self) -> tuple[float, float]:
        """Return the least and the greatest float64 allowed, infinite where there is none."""
        low = -math.inf if self.low is None else float(self.low)
        high = math.inf if self.high is None else float(self.high)
        # A Box holds its bounds; an open one ends at the next number.
        if self.open_low:
            low = math.nextafter(low, math.inf)
        if self.open_high:
            high = math.nextafter(high, -math.inf)
        return low, high


def _expand(metadata: tuple[Any, ...]) -> list[Any]:
    found: list[Any] = []
    for item in metadata:
        if isinstance(item, annotated_types.GroupedMetadata):
            found.extend(_expand(tuple(item)))
        else:
            found.append(item)
    return found
