"""What a rule is, and what comes of looking at it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from openenv_gym.doctor.checks import Check, State


if TYPE_CHECKING:
    from openenv_gym.conformance.subject import Subject

__all__ = ["Broken", "Level", "NotHere", "Rule", "Unknown"]


class Level(str, Enum):
    """How much is done to find out; each level includes those before it."""

    STATIC = "static"
    """Files are read; nothing of the environment runs."""
    RUNTIME = "runtime"
    """A server is started and an environment played."""
    CONFORMANCE = "conformance"
    """Trajectories, errors and sessions are compared."""

    @property
    def included(self) -> tuple[Level, ...]:
        """This level and those before it."""
        levels = tuple(Level)
        return levels[: levels.index(self) + 1]


class Broken(Exception):
    """A rule is not kept: what was found, and what to do where the rule's own hint is too wide."""

    def __init__(self, found: str, fix: str = "") -> None:
        super().__init__(found)
        self.found = found
        self.fix = fix


class NotHere(Exception):
    """A rule is about something that this environment does not have, and need not."""


class Unknown(Exception):
    """It could not be found out, because of something that another rule names."""


@dataclass(frozen=True)
class Rule:
    """One thing that can be relied upon where it is kept.

    Attributes:
        level: From which level on it is looked at.
        area: What it belongs to.
        name: What it says, in a few words.
        fix: What to do where it is broken.
        look: Returns what was found; raises `Broken`, `NotHere` or `Unknown`.
    """

    level: Level
    area: str
    name: str
    fix: str
    look: Callable[[Subject], str]

    def check(self, subject: Subject) -> Check:
        """Look at an environment; whatever it raises is a finding."""
        try:
            return Check(self.area, self.name, State.OK, self.look(subject))
        except NotHere as error:
            return Check(self.area, self.name, State.ABSENT, str(error))
        except Unknown as error:
            return Check(self.area, self.name, State.UNKNOWN, str(error), "Mend what failed first.")
        except Broken as error:
            return Check(self.area, self.name, State.FAILED, error.found, error.fix or self.fix)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            return Check(self.area, self.name, State.FAILED, text, self.fix)
