"""Judging a program by hidden tests, such that it can neither read nor fake them."""

from __future__ import annotations

import time
from collections.abc import Callable

from coding_env.server.interpreter import Interpreter
from coding_env.server.tasks import Call, Program, Task, lines_of


__all__ = ["Judge"]

_TEST_S = 2.0
_MAX_BUDGETS = 3  # how many times as long as one program all tests of a task may take


class Judge:
    """Runs a program in an interpreter of its own, and asks it for values.

    The program shares nothing with the interpreter in which the agent's variables live: neither
    process nor directory. It gets to see what it is called with, and never what is expected: the
    interpreter says what a value is, as text, and the comparison takes place here. So there is
    nothing to read, and patching whatever it likes it can do no better than to return the right
    values.

    Args:
        make: Makes an interpreter.
        wall_s: Seconds that the program may take, without its tests.
    """

    def __init__(self, make: Callable[[], Interpreter], wall_s: float) -> None:
        self._make = make
        self._wall_s = wall_s
        self._interpreter: Interpreter | None = None

    def judge(self, code: str, task: Task, seed: int) -> int:
        """Return how many tests of a task a program passes.

        Args:
            code: The program.
            task: The task.
            seed: Of Python's random numbers where it runs.
        """
        if self._interpreter is None:
            self._interpreter = self._make()
        end_s = time.monotonic() + _MAX_BUDGETS * self._wall_s
        passed = 0
        ready, loads = False, True
        for test in task.tests:
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                break
            if isinstance(test, Program):
                ready = False
                passed += self._prints(code, test, seed, min(self._wall_s, left_s))
                continue
            if not ready and loads:
                ready = loads = self._load(code, seed, min(self._wall_s, left_s))
            if not ready:
                continue  # it does not get so far that it could be asked for anything
            passes, ready = self._gives(test, min(_TEST_S, left_s))
            passed += passes
        self._interpreter.restart(seed)  # what it has started has no part in what follows
        return passed

    def close(self) -> None:
        """End the interpreter."""
        if self._interpreter is not None:
            self._interpreter.close()

    def _load(self, code: str, seed: int, wall_s: float) -> bool:
        assert self._interpreter is not None
        self._interpreter.restart(seed)
        done = self._interpreter.run(code, wall_s=wall_s)
        return not (done.lost or done.timed_out)

    def _gives(self, test: Call, wall_s: float) -> tuple[bool, bool]:
        """Return whether it passes, and whether the interpreter can go on."""
        assert self._interpreter is not None
        done = self._interpreter.evaluate(test.expression, wall_s=wall_s)
        passes = done.exit_code == 0 and test.expected.matches(done.value)
        return passes, not (done.lost or done.timed_out)

    def _prints(self, code: str, test: Program, seed: int, wall_s: float) -> bool:
        assert self._interpreter is not None
        self._interpreter.restart(seed, test.stdin)
        done = self._interpreter.run(code, wall_s=wall_s)
        return done.exit_code == 0 and lines_of(done.stdout.text) == test.stdout
