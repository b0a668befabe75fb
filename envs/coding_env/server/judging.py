"""Judging a program by hidden tests, such that it can neither read nor fake them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from coding_env.server.interpreter import Interpreter, Run
from coding_env.server.tasks import Call, Program, Task, lines_of


__all__ = ["Judge", "Verdict"]

_ASSERTION_S = 2.0
_ASSERTIONS_OF_A_PROGRAM = 5
# How many times as long as one program all tests may take. With the attempt itself, and with the
# usual 10 s, typed clients wait for the least (60 s), and those of `make` for the most (120 s).
_LEAST, _MOST = 4, 10
_TESTS_OF_A_PROGRAM = 10


def _assertion_s(wall_s: float) -> float:
    """Return the seconds that an assertion may take, where a program may take `wall_s`.

    Less than a program, where that is long: one that hangs at each of them is to fail soon.
    """
    return min(wall_s, max(_ASSERTION_S, wall_s / _ASSERTIONS_OF_A_PROGRAM))


def _total_s(wall_s: float, tests: int) -> float:
    """Return the seconds that so many tests may take in all."""
    return wall_s * min(max(tests / _TESTS_OF_A_PROGRAM, _LEAST), _MOST)


@dataclass(frozen=True)
class Verdict:
    """What became of the tests of a task.

    Attributes:
        passed: How many were passed.
        timed_out: How many were stopped.
        unreached: How many did not begin, because those before had used up the time.
        note: What is to be said about the last two; empty where there are none.
    """

    passed: int
    timed_out: int
    unreached: int
    note: str


class Judge:
    """Runs a program in an interpreter of its own, and asks it for values.

    The program shares nothing with the interpreter in which the agent's variables live: neither
    process nor directory. It gets to see what it is called with, and never what is expected: the
    interpreter says what a value is, as text, and the comparison takes place here. So there is
    nothing to read, and patching whatever it likes it can do no better than to return the right
    values.

    Args:
        make: Makes an interpreter.
        wall_s: Seconds that a program may take, without assertions. What these may take, and all
            tests together, follows from it.
    """

    def __init__(self, make: Callable[[], Interpreter], wall_s: float) -> None:
        self._make = make
        self._wall_s = wall_s
        self._interpreter: Interpreter | None = None

    def judge(self, code: str, task: Task, seed: int) -> Verdict:
        """Return which tests of a task a program passes.

        Args:
            code: The program.
            task: The task.
            seed: Of Python's random numbers where it runs.
        """
        if self._interpreter is None:
            self._interpreter = self._make()
        end_s = time.monotonic() + _total_s(self._wall_s, len(task.tests))
        passed = timed_out = unreached = 0
        ready, loads = False, True
        for number, test in enumerate(task.tests):
            if isinstance(test, Call) and not ready and loads:
                ready = loads = self._load(code, seed, end_s)
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                unreached = len(task.tests) - number
                break
            if isinstance(test, Program):
                ready = False
                done = self._print(code, test, seed, left_s)
                passed += done.exit_code == 0 and lines_of(done.stdout.text) == test.stdout
            elif ready:
                done = self._interpreter.evaluate(
                    test.expression, wall_s=min(_assertion_s(self._wall_s), left_s)
                )
                passed += done.exit_code == 0 and test.expected.matches(done.value)
                ready = not (done.lost or done.timed_out)
            else:
                continue  # it does not get so far that it could be asked for anything
            timed_out += done.timed_out
        self._interpreter.restart(seed)  # what it has started has no part in what follows
        return Verdict(passed, timed_out, unreached, self._note(task, timed_out, unreached))

    def _note(self, task: Task, timed_out: int, unreached: int) -> str:
        if not timed_out and not unreached:
            return ""
        tests = len(task.tests)
        return (
            f"[Of {tests} hidden tests {timed_out} were stopped after their time, and {unreached} "
            f"not reached: together they have {_total_s(self._wall_s, tests):g} s.]\n"
        )

    def close(self) -> None:
        """End the interpreter."""
        if self._interpreter is not None:
            self._interpreter.close()

    def _load(self, code: str, seed: int, end_s: float) -> bool:
        """Run the program for its definitions; return whether it can be asked for anything."""
        assert self._interpreter is not None
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            return False
        self._interpreter.restart(seed)
        done = self._interpreter.run(code, wall_s=min(self._wall_s, left_s))
        return not (done.lost or done.timed_out)

    def _print(self, code: str, test: Program, seed: int, left_s: float) -> Run:
        assert self._interpreter is not None
        self._interpreter.restart(seed, test.stdin)
        return self._interpreter.run(code, wall_s=min(self._wall_s, left_s))
