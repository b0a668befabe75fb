"""How long hidden tests may take, and what is said of those that take longer."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import pytest

from coding_env.server import judging
from coding_env.server.inside.frames import RUN
from coding_env.server.interpreter import TIMED_OUT, Interpreter, Run
from openenv_gym.models import CallToolAction

from .conftest import Make, run


# Seconds that a line of a program, or an expression, sleeps.
SLEEPS = re.compile(r"^(?:f|time\.sleep)\(([\d.]+)\)", re.MULTILINE)
SLEEP = "import time\ndef f(seconds):\n    time.sleep(seconds)\n    return 1"
HANG = "def f(seconds):\n    while True: pass"


class Clock:
    """A judge's time, which passes where programs sleep or hang, and nowhere else.

    They run as they are, but that they do not sleep; and what is stopped is not begun.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self._code = ""
        request = Interpreter._request

        def take_time(interpreter: Interpreter, kind: int, text: str, wall_s: float) -> Run:
            slept_s = sum(map(float, SLEEPS.findall(text)))
            if kind == RUN:
                self._code = text
                text = text.replace("time.sleep(", "float(")
            elif SLEEP not in self._code:
                slept_s = math.inf if HANG in self._code else 0.0
            self.now_s += min(slept_s, wall_s)
            if slept_s <= wall_s:
                return request(interpreter, kind, text, 60.0)
            done = request(interpreter, kind, "None", 60.0)
            return dataclasses.replace(done, exit_code=TIMED_OUT, value=None, timed_out=True)

        monkeypatch.setattr(Interpreter, "_request", take_time)
        monkeypatch.setattr(judging, "time", self)

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def task(*tests: Any) -> list[Any]:
    return [{"id": "t", "prompt": "p", "tests": list(tests)}]


def test_an_assertion_that_hangs_is_stopped_and_the_next_is_judged(make: Make) -> None:
    environment = make(tasks=task("assert f(1) == 1", "assert f(0) == 1"), wall_s=20.0)
    environment.reset()
    seen = run(environment, "def f(number):\n    while number: pass\n    return 1")
    assert (seen.tests_passed, seen.metadata["tests_timed_out"]) == (1, 1)
    assert seen.metadata["tests_unreached"] == 0


def test_the_time_of_an_assertion_follows_that_of_a_program(clock: Clock, make: Make) -> None:
    tests = ("assert f(3.9) == 1", "assert f(4.1) == 1", "assert f(0) == 1")
    environment = make(tasks=task(*tests), wall_s=20.0)
    environment.reset()
    seen = run(environment, SLEEP)
    assert (seen.tests_passed, seen.metadata["tests_timed_out"]) == (2, 1)
    assert seen.metadata["tests_unreached"] == 0


def test_an_assertion_takes_no_longer_than_a_program(clock: Clock, make: Make) -> None:
    environment = make(tasks=task("assert f(1.5) == 1", "assert f(0) == 1"), wall_s=0.5)
    environment.reset()
    seen = run(environment, SLEEP)
    assert (seen.tests_passed, seen.metadata["tests_timed_out"]) == (1, 1)
    assert seen.metadata["tests_unreached"] == 0
    assert "Of 2 hidden tests 1 were stopped after their time, and 0 not reached" in seen.stderr


def test_many_tests_have_more_time(clock: Clock, make: Make) -> None:
    environment = make(tasks=task(*["assert f(0.028) == 1"] * 80), wall_s=0.5)
    environment.reset()
    seen = run(environment, SLEEP)
    assert (seen.tests_passed, seen.stderr) == (80, "")


def test_what_was_not_reached_is_said(clock: Clock, make: Make) -> None:
    tests = [*["assert f(0.3) == 1"] * 12, {"stdin": "", "stdout": ""}]
    environment = make(tasks=task(*tests), wall_s=0.5, attempts=5, render_mode="ansi")
    environment.reset()
    seen = run(environment, SLEEP)
    info = seen.metadata
    assert (seen.tests_passed, info["tests_timed_out"], info["tests_unreached"]) == (6, 1, 6)
    note = "6 not reached: together they have 2 s.]\n"
    assert seen.stderr.endswith(note)
    assert environment.render().endswith(note)
    # Each hangs: what is written beside it stays, and tools say the same.
    code = f"import sys\nprint('x' * 20_000, file=sys.stderr)\n{HANG}"
    action = CallToolAction(tool_name="submit_solution", arguments={"code": code})
    said = environment.step(action).result
    assert (said["tests_timed_out"], said["tests_unreached"]) == (4, 9)
    assert said["stderr"].startswith("xxx")
    assert said["stderr"].endswith("not reached: together they have 2 s.]\n")
    # What fails at once, or never gets so far, is no matter of time.
    for code in ("def f(seconds): raise OSError", "1 / 0", "import os; os._exit(1)"):
        info = run(environment, code).metadata
        assert info["tests_timed_out"] == info["tests_unreached"] == 0


def test_a_program_that_takes_long_before_its_tests(clock: Clock, make: Make) -> None:
    # Each assertion hangs, so the program runs again for each of them, which takes up time, too.
    tests = ["assert f(5) == 1"] * 10
    environment = make(tasks=task(*tests), wall_s=0.5, fields="openenv")
    environment.reset()
    seen = run(environment, f"{SLEEP}\ntime.sleep(0.3)")
    info = seen.metadata
    assert (info["tests_timed_out"], info["tests_unreached"]) == (3, 7)
    assert "7 not reached" in seen.stderr
