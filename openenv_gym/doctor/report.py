"""What the checks amount to, as text and as data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from openenv_gym.doctor.checks import Check, State, guarded
from openenv_gym.doctor.engine import check_engine
from openenv_gym.doctor.machine import check_machine
from openenv_gym.doctor.python import check_python
from openenv_gym.errors import printable


__all__ = ["as_json", "examine", "healthy", "lines"]

_SHOWN = {State.OK: "ok", State.ABSENT: "-", State.FAILED: "FAILED", State.UNKNOWN: "?"}


def examine() -> list[Check]:
    """Look at Python, this machine and the Docker daemon."""
    return [
        *guarded("python", "packages", check_python),
        *guarded("machine", "kernel", check_machine),
        *guarded("docker", "daemon", check_engine),
    ]


def healthy(checks: Iterable[Check]) -> bool:
    """Tell whether nothing that is needed is missing."""
    return all(each.state in (State.OK, State.ABSENT) for each in checks)


def lines(checks: Sequence[Check]) -> list[str]:
    """Return the checks as text: what was found, and beside what does not work its remedy."""
    width = max((len(each.name) for each in checks), default=0)
    text: list[str] = []
    area = ""
    for each in checks:
        if each.area != area:
            area = each.area
            text += ["", area] if text else [area]
        text.append(f"  {_SHOWN[each.state]:6} {each.name:{width}}  {printable(each.found)}")
        if each.fix and each.state is not State.OK:
            text.append(f"  {'':6} {'':{width}}  -> {each.fix}")
    return text


def as_json(checks: Sequence[Check]) -> dict[str, Any]:
    """Return the same as plain data."""
    return {"healthy": healthy(checks), "checks": [dataclasses.asdict(each) for each in checks]}
