"""What was measured, as text for people and as JSON for programs."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.model import Benchmark, Limit, Measure, Peer


__all__ = [
    "Figures",
    "Report",
    "format_json",
    "format_table",
    "machine",
    "plain",
    "show_amount",
    "show_comparison",
]


@dataclass
class Figures:
    """What was measured of one contender.

    Attributes:
        steps: Steps, or sessions, of each round.
        facts: What its driver tells of itself: versions and the like.
        amounts: Seconds for a step, or bytes for a session, of each round.
    """

    steps: int
    facts: dict[str, Any]
    amounts: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Median of the rounds."""
        return statistics.median(self.amounts)


@dataclass
class Report:
    """What a benchmark found; `figures` by the contenders' names, ours first."""

    benchmark: Benchmark
    rounds: int
    figures: dict[str, Figures]

    @property
    def comparisons(self) -> list[tuple[Peer, float]]:
        """Each peer with how ours compares to it; none where ours was left out."""
        ours = self.figures.get(self.benchmark.ours.name)
        if ours is None:
            return []
        return [
            (peer, self.benchmark.compare(peer, ours.median, theirs.median))
            for peer in self.benchmark.peers
            if (theirs := self.figures.get(peer.contender.name)) is not None
        ]

    @property
    def passed(self) -> bool:
        """Whether ours keeps every limit."""
        return all(peer.limit.holds(ratio) for peer, ratio in self.comparisons if peer.limit)


# -- for people ---------------------------------------------------------------------------------


def format_table(report: Report) -> str:
    """Return a report as text."""
    benchmark = report.benchmark
    rows: list[tuple[str, ...]] = [(*_headings(benchmark), "ours", "limit", "")]
    verdicts = {peer.contender.name: (peer, ratio) for peer, ratio in report.comparisons}
    for name, figures in report.figures.items():
        row = (name, *_cells(benchmark, figures.median))
        if name in verdicts:
            peer, ratio = verdicts[name]
            verdict = "" if peer.limit is None else "pass" if peer.limit.holds(ratio) else "FAIL"
            shown = show_comparison(benchmark.measure(peer), ratio)
            rows.append((*row, shown, str(peer.limit or ""), verdict))
        else:
            rows.append((*row, "", "", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    left = (0, len(widths) - 2, len(widths) - 1)
    lines = [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    heading = (
        f"{benchmark.name}: {benchmark.title} "
        f"(median of {report.rounds}, interleaved, {os.cpu_count()} cores)"
    )
    return "\n".join(["", heading, *lines, ""])


def _headings(benchmark: Benchmark) -> tuple[str, ...]:
    if benchmark.quantity == "memory":
        return "", "a session"
    return ("", "step", "steps/s", *(["observations/s"] if benchmark.num_envs > 1 else []))


def _cells(benchmark: Benchmark, amount: float) -> tuple[str, ...]:
    shown = show_amount(benchmark.quantity, amount)
    if benchmark.quantity == "memory":
        return (shown,)
    several = [f"{benchmark.num_envs / amount:,.0f}"] if benchmark.num_envs > 1 else []
    return (shown, f"{1 / amount:,.0f}", *several)


def show_amount(quantity: str, amount: float) -> str:
    """Return seconds for a step, or bytes for a session, as text."""
    if quantity == "memory":
        return f"{amount:,.0f} B" if abs(amount) < 1024 else f"{amount / 1024:,.1f} KiB"
    if amount >= 1:
        return f"{amount:.2f} s"
    return f"{amount * 1e3:.2f} ms" if amount >= 1e-3 else f"{amount * 1e6:.1f} us"


def show_comparison(measure: Measure, value: float) -> str:
    """Return what `Benchmark.compare` returned as text."""
    return f"{value:+.2f} s" if measure == "difference" else f"{value:.2f}x"


# -- for programs -------------------------------------------------------------------------------


def format_json(reports: Sequence[Report]) -> str:
    """Return reports as JSON, with the facts of this machine."""
    return json.dumps(
        {"machine": machine(), "benchmarks": [plain(report) for report in reports]}, indent=2
    )


def plain(report: Report) -> dict[str, Any]:
    """Return a report as plain data."""
    benchmark = report.benchmark
    return {
        "name": benchmark.name,
        "title": benchmark.title,
        "quantity": benchmark.quantity,
        "num_envs": benchmark.num_envs,
        "rounds": report.rounds,
        "contenders": [
            {"name": name, **_plain_figures(benchmark, figures), "facts": figures.facts}
            for name, figures in report.figures.items()
        ],
        "comparisons": [
            {
                "peer": peer.contender.name,
                "measure": benchmark.measure(peer),
                "ratio": ratio,
                **_plain_limit(peer.limit, ratio),
            }
            for peer, ratio in report.comparisons
        ],
        "passed": report.passed,
    }


def _plain_figures(benchmark: Benchmark, figures: Figures) -> dict[str, Any]:
    if benchmark.quantity == "memory":
        return {
            "session_bytes": figures.median,
            "rounds_session_bytes": figures.amounts,
            "sessions_per_round": figures.steps,
        }
    return {
        "step_us": figures.median * 1e6,
        "steps_per_s": 1 / figures.median,
        "observations_per_s": benchmark.num_envs / figures.median,
        "rounds_step_us": [seconds * 1e6 for seconds in figures.amounts],
        "steps_per_round": figures.steps,
    }


def _plain_limit(limit: Limit | None, ratio: float) -> dict[str, Any]:
    if limit is None:
        return {"at_most": None, "at_least": None, "passed": None}
    most = limit.time_at_most if limit.more_at_most_s is None else limit.more_at_most_s
    return {"at_most": most, "at_least": limit.rate_at_least, "passed": limit.holds(ratio)}


def machine() -> dict[str, Any]:
    """Return the facts of this machine that figures depend on."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cores": usable,
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
