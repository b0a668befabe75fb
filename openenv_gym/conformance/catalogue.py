"""All rules, and how they are looked at one after the other."""

from __future__ import annotations

from collections.abc import Iterator

from openenv_gym.conformance.behaviour import BEHAVIOUR_RULES
from openenv_gym.conformance.rules import Level, Rule
from openenv_gym.conformance.runtime import RUNTIME_RULES
from openenv_gym.conformance.static import STATIC_RULES
from openenv_gym.conformance.subject import Subject
from openenv_gym.doctor.checks import Check


__all__ = ["RULES", "rules_of", "run_rules"]

RULES: tuple[Rule, ...] = (*STATIC_RULES, *RUNTIME_RULES, *BEHAVIOUR_RULES)


def rules_of(level: Level, *, files: bool = True) -> list[Rule]:
    """Return the rules of a level and of those before it.

    Args:
        level: The level.
        files: There are files to read; a server that runs somewhere has none.
    """
    return [
        rule
        for rule in RULES
        if rule.level in level.included and (files or rule.level is not Level.STATIC)
    ]


def run_rules(subject: Subject, level: Level) -> Iterator[Check]:
    """Look at an environment, one rule after the other."""
    for rule in rules_of(level, files=subject.has_files):
        yield rule.check(subject)
