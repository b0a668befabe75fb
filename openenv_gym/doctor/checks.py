"""What a check of this machine finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum


__all__ = ["Check", "State", "guarded"]


class State(str, Enum):
    """How a check turned out."""

    OK = "ok"
    """It works."""
    ABSENT = "absent"
    """It is not here, and only some need it."""
    FAILED = "failed"
    """It is needed, or is here, and does not work."""
    UNKNOWN = "unknown"
    """It could not be found out."""


@dataclass(frozen=True)
class Check:
    """One thing that works on this machine, or does not.

    Attributes:
        area: What it belongs to.
        name: What was looked at.
        state: How it turned out.
        found: What is there.
        fix: What to do about it; empty where it works.
    """

    area: str
    name: str
    state: State
    found: str
    fix: str = ""


def guarded(area: str, name: str, look: Callable[[], Iterator[Check]]) -> list[Check]:
    """Run checks of one kind; where they fail themselves, that is a finding like any other."""
    found: list[Check] = []
    try:
        for check in look():
            found.append(check)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        found.append(Check(area, name, State.UNKNOWN, text, "Please report this."))
    return found
