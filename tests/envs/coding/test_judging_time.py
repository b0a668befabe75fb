"""How long hidden tests may take, and what is said of those that take longer."""

from __future__ import annotations

from typing import Any

from openenv_gym.models import CallToolAction

from .conftest import Make, run


SLEEP = "import time\ndef f(seconds):\n    time.sleep(seconds)\n    return 1"


def task(*tests: Any) -> list[Any]:
    return [{"id": "t", "prompt": "p", "tests": list(tests)}]


def test_the_time_of_an_assertion_follows_that_of_a_program(make: Make) -> None:
    environment = make(tasks=task("assert f(2.5) == 1", "assert f(0) == 1"), wall_s=20.0)
    environment.reset()
    seen = run(environment, SLEEP)
    assert (seen.tests_passed, seen.stderr) == (2, "")
    assert seen.metadata["tests_timed_out"] == seen.metadata["tests_unreached"] == 0


def test_an_assertion_takes_no_longer_than_a_program(make: Make) -> None:
    environment = make(tasks=task("assert f(1.5) == 1", "assert f(0) == 1"), wall_s=0.5)
    environment.reset()
    seen = run(environment, SLEEP)
    assert (seen.tests_passed, seen.metadata["tests_timed_out"]) == (1, 1)
    assert seen.metadata["tests_unreached"] == 0
    assert "Of 2 hidden tests 1 were stopped after their time, and 0 not reached" in seen.stderr


def test_many_tests_have_more_time(make: Make) -> None:
    environment = make(tasks=task(*["assert f(0.028) == 1"] * 80), wall_s=0.5)
    environment.reset()
    assert run(environment, SLEEP).tests_passed == 80


def test_what_was_not_reached_is_said(make: Make) -> None:
    tests = [*["assert f(0.3) == 1"] * 12, {"stdin": "", "stdout": ""}]
    environment = make(tasks=task(*tests), wall_s=0.5, attempts=5, render_mode="ansi")
    environment.reset()
    seen = run(environment, SLEEP)
    info = seen.metadata
    assert 1 <= seen.tests_passed <= 7
    assert info["tests_unreached"] >= 6
    assert seen.tests_passed + info["tests_timed_out"] + info["tests_unreached"] == 13
    note = f"{info['tests_unreached']} not reached: together they have 2 s.]\n"
    assert seen.stderr.endswith(note)
    assert environment.render().endswith(note)
    # Each hangs: what is written beside it stays, and tools say the same.
    code = "import sys\nprint('x' * 20_000, file=sys.stderr)\ndef f(seconds):\n    while True: pass"
    action = CallToolAction(tool_name="submit_solution", arguments={"code": code})
    said = environment.step(action).result
    assert said["tests_timed_out"] >= 1
    assert said["tests_timed_out"] + said["tests_unreached"] == 13
    assert said["stderr"].startswith("xxx")
    assert said["stderr"].endswith("not reached: together they have 2 s.]\n")
    # What fails at once, or never gets so far, is no matter of time.
    for code in ("def f(seconds): raise OSError", "1 / 0", "import os; os._exit(1)"):
        info = run(environment, code).metadata
        assert info["tests_timed_out"] == info["tests_unreached"] == 0


def test_a_program_that_takes_long_before_its_tests(make: Make) -> None:
    # Each assertion hangs, so the program runs again for each of them, which takes up time, too.
    tests = ["assert f(5) == 1"] * 10
    environment = make(tasks=task(*tests), wall_s=0.5, fields="openenv")
    environment.reset()
    seen = run(environment, f"{SLEEP}\ntime.sleep(0.3)")
    info = seen.metadata
    assert info["tests_unreached"] >= 5
    assert info["tests_timed_out"] + info["tests_unreached"] == 10
    assert f"{info['tests_unreached']} not reached" in seen.stderr
