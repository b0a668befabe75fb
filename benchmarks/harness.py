"""Measure contenders in turns and compare their medians.

Every contender is a process of its own (`benchmarks.drivers`), ours as well as its peers, so that
none profits from what another has loaded or left behind. Rounds are interleaved (A B A B), so that
a machine which slows down for a while slows all of them. A contender's figure is the median of its
rounds; a round's figure is its wall time divided by its steps, or its bytes divided by its
sessions.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.model import Benchmark, Contender
from benchmarks.reports import Figures, Report


__all__ = ["ROOT", "BenchmarkError", "measure", "progress"]

ROOT = Path(__file__).resolve().parent.parent
ROUND_TIMEOUT_S = 300.0


class BenchmarkError(Exception):
    """A contender could not be measured."""


class Process:
    """A running driver; commands and answers are lines of JSON on its standard streams.

    A driver ends when its standard input does, so none outlives this process, however it ends.
    """

    def __init__(self, contender: Contender) -> None:
        self.name = contender.name
        # First, since it may fail, and then nothing is open yet.
        python = contender.python() if contender.python is not None else sys.executable
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
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
        """Run a round and return its whole amount: seconds, or bytes."""
        return float(self._ask({"steps": steps})["amount"])

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
        BenchmarkError: A contender could not be measured, and is not one that may be left out.
    """
    contenders = [] if peers_only else [(benchmark.ours, False)]
    contenders += [(peer.contender, peer.optional) for peer in benchmark.peers]
    with ExitStack() as stack:
        processes = []
        figures = {}
        for contender, optional in contenders:
            progress(f"{benchmark.name}: starting {contender.name}")
            steps = max(1, round(contender.steps * scale))
            try:
                process = stack.enter_context(Process(contender))
                # The warm-up is a round that does not count: caches, sockets' windows, clock rates.
                process.round(steps)
            except BenchmarkError as error:
                if not optional:
                    raise
                progress(f"{benchmark.name}: {contender.name} is left out: {error}")
                continue
            processes.append(process)
            figures[contender.name] = Figures(steps, process.facts)
        for number in range(rounds):
            progress(f"{benchmark.name}: round {number + 1} of {rounds}")
            for process in processes:
                figure = figures[process.name]
                figure.amounts.append(process.round(figure.steps) / figure.steps)
    return Report(benchmark, rounds, figures)


def progress(text: str) -> None:
    """Print a line of progress; to standard error, since standard output holds the result."""
    print(f"benchmarks: {text}", file=sys.stderr, flush=True)
