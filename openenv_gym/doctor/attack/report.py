"""The table of a battery."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from openenv_gym.doctor.attack.battery import NEIGHBOUR_S, Finding
from openenv_gym.errors import printable


__all__ = ["as_json", "line", "passed", "summary"]

_WIDTHS = (9, 10, 32, 7, 20, 8)
_WORDS = {"held": "pass", "broke": "FAIL", "void": "void"}


def passed(findings: Sequence[Finding]) -> bool:
    """Tell whether every attack was held off, after it succeeded in a control container."""
    return all(each.state == "held" and not each.slow for each in findings)


def line(finding: Finding | None = None) -> str:
    """Return a row of the table; without a finding its head."""
    if finding is None:
        cells = ("", "about", "attack", "server", "succeeds in", "step", "with us")
    else:
        step = "" if finding.neighbour_s is None else f"{finding.neighbour_s * 1e3:.0f} ms"
        word = "SLOW" if finding.state == "held" and finding.slow else _WORDS[finding.state]
        detail = printable(finding.detail)[:200]
        cells = (
            word,
            finding.group,
            finding.name,
            finding.where,
            finding.control,
            step,
            detail,
        )
    padded = [f"{cell:{width}}" for cell, width in zip(cells, _WIDTHS, strict=False)]
    return " ".join([*padded, cells[-1]]).rstrip()


def summary(findings: Sequence[Finding]) -> str:
    """Return what the table amounts to."""
    states = [each.state for each in findings]
    counts = f"{states.count('held')} of {len(states)} held off"
    if broke := states.count("broke"):
        counts += f", {broke} NOT"
    if void := states.count("void"):
        counts += f", {void} void (they succeed nowhere on this machine, and so show nothing)"
    slow = sum(each.slow for each in findings)
    if slow:
        counts += f"; {slow} kept a neighbour's step waiting for more than {NEIGHBOUR_S:g} s"
    return counts + "."


def as_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the same as plain data."""
    return {
        "passed": passed(findings),
        "attacks": [dataclasses.asdict(each) for each in findings],
    }
