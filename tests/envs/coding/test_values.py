"""Values, and which of them are equal to what a hidden test expects."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from coding_env.server.expected import Expected
from coding_env.server.inside.canonical import canonical, ten_digits

from .conftest import Make, run


HUGE = 10**400  # no float is as large
INFINITY = 1e999


def equal(given: Any, expected: Any) -> bool:
    return Expected.of(expected).matches(canonical(given))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (True, 1),
        (2, 2.0),
        (0.1 + 0.2, 0.3),
        ((0.1 + 0.2) * 1e11, 3e10),
        ((0.1 + 0.2) * 1e11, 3 * 10**10),
        (3e10, 3 * 10**10),
        (10**20, 1e20),
        (-(10**20), -1e20),
        (10**23, 1e23),  # which is 99999999999999991611392
        (12345678901.0, 12345678901),
        (2.0**70, 2**70),
        (1e308 * (1 + 2**-52), 1e308),
        (0.0, -0.0),
        (0, -0.0),
        (INFINITY, INFINITY),
        (HUGE, HUGE),
        (HUGE + 1, HUGE + 1),
        # In the middle between two numbers of ten digits, and next to it.
        (1234567890.5, 1234567890.5000002),
        (12345678.905, 12345678.905000001),
        (0.30000000005, 0.30000000005000005),
        (12345678905, 12345678905.000002),
        ({1, 2}, {2, 1}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (frozenset({1}), {1}),
        ([(1, 2.0)], [(1.0, 2)]),
        ({1e20, 2, "a"}, {10**20, 2.0, "a"}),
        # Where ten digits do not say which is which.
        ({(1e20, "b"), (10**20, "a")}, {(10**20, "b"), (10**20, "a")}),
        ({12345678905.0, 12345678906}, {12345678905, 12345678906.0}),
        ({1e11: 1, 10**11 + 1: 2}, {10**11: True, 1e11 + 1: 2.0}),
    ],
)
def test_equal_values(left: Any, right: Any) -> None:
    assert equal(left, right)
    assert equal(right, left)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, "1"),
        ([1], (1,)),
        (b"a", "a"),
        (None, "None"),
        (set(), {}),
        (1.0, 1.001),
        (1.0, 1 + 1e-9),
        (3e10, 3e10 + 20),
        (1e10, 1e11),
        (10**20, 10**20 + 1),
        (10**20, 10**21),
        (2**70, 2**70 - 1),
        (HUGE, HUGE + 1),
        (HUGE, INFINITY),
        (1.7976931348623157e308, INFINITY),
        (INFINITY, -INFINITY),
        (-(10**20), 1e20),
        (math.nan, 0),
        (math.nan, math.nan),
        (["1,2"], [1, 2]),
        ("1e+20", 1e20),
        ([10**20, 1], [10**20 + 1, 1]),
        ({10**20: 1}, {10**20: 2}),
    ],
)
def test_other_values(left: Any, right: Any) -> None:
    assert not equal(left, right)
    assert not equal(right, left)


def test_ten_digits_of_integers_are_those_of_floats() -> None:
    drawn = random.Random(0)
    for _ in range(20_000):
        number = drawn.randrange(1, 10 ** drawn.randrange(1, 16))
        for each in (number, -number, number * 10 + 5, number - number % 10 + 5):
            assert ten_digits(each) == ten_digits(float(each))
    for each in (9999999999, 99999999994, 99999999995, 10**10, 12345678905, 12345678915):
        assert ten_digits(each) == ten_digits(float(each))


def test_a_float_equals_an_integer_in_ten_digits_and_integers_themselves_alone() -> None:
    assert equal(1e20, 10**20 + 1)
    assert equal(10**20 + 1, 1e20)
    assert not equal(10**20 + 1, 10**20)


def test_what_is_no_plain_data_has_no_text() -> None:
    deep: list[Any] = []
    deep.append(deep)
    for value in (object(), deep, OSError, type("Text", (str,), {})("a"), 10**5000):
        with pytest.raises((TypeError, ValueError)):
            canonical(value)


def test_large_floats_are_judged_in_ten_digits(make: Make) -> None:
    tests = [
        "assert f() == 3e10",
        "assert f() == 30000000000",
        "assert [f(), {f()}] == [3e10, {30000000000}]",
        "assert -f() == -3e10",
        "assert int(f()) == 30000000001",  # it is not
    ]
    environment = make(tasks=[{"id": "a", "prompt": "p", "tests": tests}])
    environment.reset()
    assert run(environment, "def f(): return (0.1 + 0.2) * 1e11").tests_passed == 4


TRUE = ("[0]", "'a'", "2", "-0.5", "{None}", "len", "float('nan')", "True")
FALSE = ("[]", "''", "0", "-0.0", "None", "set()", "False", "range(0)")


@pytest.mark.parametrize("executor", ["python", "smolagents"])
def test_an_expression_alone_is_judged_by_its_truth(make: Make, executor: str) -> None:
    if executor == "smolagents":
        pytest.importorskip("smolagents")
    tests = ["assert f()", "assert not f()", "assert not not f()"]
    task = {"id": "a", "prompt": "p", "tests": tests}
    environment = make(tasks=[task], attempts=50, executor=executor)
    environment.reset()
    for passed, values in ((2, TRUE), (1, FALSE)):
        for value in values:
            seen = run(environment, f"def f(): return {value}")
            assert (value, seen.tests_passed) == (value, passed)
    failing = "class Odd:\n    def __bool__(self): return 5\ndef f(): return Odd()"
    assert run(environment, failing).tests_passed == 0


def test_what_is_true_cannot_be_patched(make: Make) -> None:
    environment = make(tasks=[{"id": "a", "prompt": "p", "tests": ["assert f()"]}])
    environment.reset()
    code = "import builtins\ndef f():\n    builtins.bool = lambda value: 1 == 1\n    return []"
    assert run(environment, code).tests_passed == 0
