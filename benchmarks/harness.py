"""Measure contenders in turns and compare their medians.

Every contender is a process of its own (`benchmarks.drivers`), ours as well as its peers, so that
none profits from what another has loaded or left behind. Rounds are interleaved (A B A B), so that
a machine which slows down for a while slows all of them. A contender's figure is the median of its
rounds; a round's figure is its wall time divided by its steps.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any


__all__ = [
    "ROOT",
    "Benchmark",
    "BenchmarkError",
    "Contender",
    "Limit",
    "Peer",
    "Report",
    "format_json",
    "format_table",
    "measure",
    "progress",
]

ROOT = Path(__file__).resolve().parent.parent
ROUND_TIMEOUT_S = 300.0


class BenchmarkError(Exception):
    """A contender could not be measured."""


@dataclass(frozen=True)
class Contender:
    """Something that takes steps.

    Attributes:
        name: As tables show it.
        driver: Name of a module in `benchmarks.drivers`.
        options: Its options, plain data.
        steps: Steps of one round; about a second's worth.
        python: Makes its interpreter ready and returns it; this one where it is None.
    """

    name: str
    driver: str
    options: dict[str, Any]
    steps: int
    python: Callable[[], str] | None = None


@dataclass(frozen=True)
class Limit:
    """What ours must reach against a peer; exactly one of the three is set.

    Attributes:
        time_at_most: Ours may take this many times the peer's time for a step.
        rate_at_least: Ours must make this many times the peer's steps in a second.
        more_at_most_s: Ours may take this much longer than the peer.
    """

    time_at_most: float | None = None
    rate_at_least: float | None = None
    more_at_most_s: float | None = None

    @property
    def measure(self) -> str:
        """What is compared: ``"time"``, ``"rate"``, or the ``"difference"`` of times."""
        if self.more_at_most_s is not None:
            return "difference"
        return "time" if self.time_at_most is not None else "rate"

    def compare(self, ours: float, theirs: float) -> float:
        """Return what is limited, of two times per step in seconds."""
        if self.more_at_most_s is not None:
            return ours - theirs
        return ours / theirs if self.time_at_most is not None else theirs / ours

    def holds(self, value: float) -> bool:
        """Tell whether what `compare` returned is within the limit."""
        most = self.more_at_most_s if self.more_at_most_s is not None else self.time_at_most
        return value <= most if most is not None else value >= (self.rate_at_least or 0.0)

    def show(self, value: float) -> str:
        """Return what `compare` returned as text."""
        return f"{value:+.2f} s" if self.more_at_most_s is not None else f"{value:.2f}x"

    def __str__(self) -> str:
        if self.more_at_most_s is not None:
            return f"time <= +{self.more_at_most_s:g} s"
        if self.time_at_most is not None:
            return f"time <= {self.time_at_most:g}x"
        return f"rate >= {self.rate_at_least:g}x"


@dataclass(frozen=True)
class Peer:
    """A contender that ours is compared with."""

    contender: Contender
    limit: Limit


@dataclass(frozen=True)
class Benchmark:
    """Ours, its peers, and what is asked of ours."""

    name: str
    title: str
    ours: Contender
    peers: tuple[Peer, ...]


@dataclass
class Figures:
    """What was measured of one contender.

    Attributes:
        seconds: Time per step of each round.
        steps: Steps of each round.
        facts: What its driver tells of itself: versions and the like.
    """

    steps: int
    facts: dict[str, Any]
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Median time of a step, in seconds."""
        return statistics.median(self.seconds)


@dataclass
class Report:
    """What a benchmark found; `figures` by the contenders' names, ours first."""

    benchmark: Benchmark
    rounds: int
    figures: dict[str, Figures]

    @property
    def comparisons(self) -> list[tuple[Peer, float]]:
        """Each peer with the ratio of ours to it; none where ours was left out."""
        ours = self.figures.get(self.benchmark.ours.name)
        if ours is None:
            return []
        return [
            (peer, peer.limit.compare(ours.median, self.figures[peer.contender.name].median))
            for peer in self.benchmark.peers
        ]

    @property
    def passed(self) -> bool:
        """Whether ours keeps every limit."""
        return all(peer.limit.holds(ratio) for peer, ratio in self.comparisons)


class Process:
    """A running driver; commands and answers are lines of JSON on its standard streams.

    A driver ends when its standard input does, so none outlives this process, however it ends.
    """

    def __init__(self, contender: Contender) -> None:
        self.name = contender.name
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        python = contender.python() if contender.python is not None else sys.executable
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [python, "-m", f"benchmarks.drivers.{contender.driver}"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            # A group of its own: Ctrl-C reaches this process alone, which ends drivers in order;
            # and what a driver has started and left can be ended with it.
            start_new_session=True,
        )
        try:
            self.facts = self._ask(contender.options)
        except BaseException:
            self.close()
            raise

    def round(self, steps: int) -> float:
        """Take some steps and return the seconds that they took."""
        return float(self._ask({"steps": steps})["seconds"])

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
            line = self._read_line()
        except BrokenPipeError:
            line = ""
        if not line:
            raise BenchmarkError(f"{self.name} ended. Its last lines:\n{self._last_lines()}")
        answer = json.loads(line)
        assert isinstance(answer, dict)
        return answer

    def _read_line(self) -> str:
        # A timer rather than select(): lines may sit in the text layer's own buffer.
        assert self._process.stdout is not None
        previous = signal.signal(signal.SIGALRM, self._on_alarm)
        signal.setitimer(signal.ITIMER_REAL, ROUND_TIMEOUT_S)
        try:
            return self._process.stdout.readline()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)

    def _on_alarm(self, *_: object) -> None:
        raise BenchmarkError(
            f"{self.name} gave no answer for {ROUND_TIMEOUT_S:g} s. Its last lines:\n"
            f"{self._last_lines()}"
        )

    def _last_lines(self, count: int = 20) -> str:
        self._log.seek(0)
        return "\n".join(self._log.read().decode(errors="replace").splitlines()[-count:])

    def close(self) -> None:
        """End the driver, in order where it follows, with all that it started."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()
        self._log.close()

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def measure(
    benchmark: Benchmark, *, rounds: int = 5, scale: float = 1.0, peers_only: bool = False
) -> Report:
    """Run a benchmark.

    Args:
        benchmark: What to run.
        rounds: Rounds of each contender.
        scale: Factor on the steps of a round.
        peers_only: Leave ours out.

    Returns:
        What was measured.

    Raises:
        BenchmarkError: A contender could not be measured.
    """
    contenders = [peer.contender for peer in benchmark.peers]
    if not peers_only:
        contenders.insert(0, benchmark.ours)
    with ExitStack() as stack:
        processes = []
        figures = {}
        for contender in contenders:
            progress(f"{benchmark.name}: starting {contender.name}")
            process = stack.enter_context(Process(contender))
            steps = max(1, round(contender.steps * scale))
            # The warm-up is a round that does not count: caches, sockets' windows, clock rates.
            process.round(steps)
            processes.append(process)
            figures[contender.name] = Figures(steps, process.facts)
        for number in range(rounds):
            progress(f"{benchmark.name}: round {number + 1} of {rounds}")
            for process in processes:
                figure = figures[process.name]
                figure.seconds.append(process.round(figure.steps) / figure.steps)
    return Report(benchmark, rounds, figures)


def progress(text: str) -> None:
    """Print a line of progress; to standard error, since standard output holds the result."""
    print(f"benchmarks: {text}", file=sys.stderr, flush=True)


# -- reports ------------------------------------------------------------------------------------


def format_table(report: Report) -> str:
    """Return a report as text."""
    rows: list[tuple[str, ...]] = [("", "step", "steps/s", "ours", "limit", "")]
    verdicts = {peer.contender.name: (peer, ratio) for peer, ratio in report.comparisons}
    for name, figures in report.figures.items():
        row = (name, _duration(figures.median), f"{1 / figures.median:,.0f}")
        if name in verdicts:
            peer, ratio = verdicts[name]
            verdict = "pass" if peer.limit.holds(ratio) else "FAIL"
            rows.append((*row, peer.limit.show(ratio), str(peer.limit), verdict))
        else:
            rows.append((*row, "", "", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if column in (0, 4, 5) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    heading = (
        f"{report.benchmark.name}: {report.benchmark.title} "
        f"(median of {report.rounds}, interleaved, {os.cpu_count()} cores)"
    )
    return "\n".join(["", heading, *lines, ""])


def format_json(reports: Sequence[Report]) -> str:
    """Return reports as JSON, with the facts of this machine."""
    return json.dumps(
        {"machine": _machine(), "benchmarks": [_plain(report) for report in reports]}, indent=2
    )


def _plain(report: Report) -> dict[str, Any]:
    return {
        "name": report.benchmark.name,
        "title": report.benchmark.title,
        "rounds": report.rounds,
        "contenders": [
            {
                "name": name,
                "step_us": figures.median * 1e6,
                "steps_per_s": 1 / figures.median,
                "rounds_step_us": [seconds * 1e6 for seconds in figures.seconds],
                "steps_per_round": figures.steps,
                "facts": figures.facts,
            }
            for name, figures in report.figures.items()
        ],
        "comparisons": [
            {
                "peer": peer.contender.name,
                "measure": peer.limit.measure,
                "ratio": ratio,
                "at_most": (
                    peer.limit.time_at_most
                    if peer.limit.more_at_most_s is None
                    else peer.limit.more_at_most_s
                ),
                "at_least": peer.limit.rate_at_least,
                "passed": peer.limit.holds(ratio),
            }
            for peer, ratio in report.comparisons
        ],
        "passed": report.passed,
    }


def _machine() -> dict[str, Any]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cores": usable,
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"
