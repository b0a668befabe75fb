from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as gs
from hypothesis import given, settings

from openenv_gym.errors import InvalidActionError
from openenv_gym.spaces import check_action
from openenv_gym.spaces.samples import (
    box_reader,
    discrete_reader,
    find_problem,
    sample_reader,
    scalar_reader,
)

from .strategies import seeds, spaces


BOX = gs.Box(-1, 1, (2,))
NESTED = gs.Dict({"a": gs.Tuple([gs.Discrete(3), BOX]), "b": gs.MultiBinary(2)})
GOOD = {"a": (np.int64(1), np.zeros(2, np.float32)), "b": np.zeros(2, np.int8)}


# Gymnasium's Graph takes elements of a batched Box of shape () for Python numbers.
@pytest.mark.filterwarnings("ignore:.*Casting input x")
@settings(max_examples=60, deadline=None)
@given(space=spaces(), seed=seeds)
def test_what_a_space_samples_lies_in_it(space: gymnasium.Space[Any], seed: int) -> None:
    space.seed(seed)
    sample = space.sample()
    assert find_problem(space, sample, "sample") is None
    assert sample_reader(space, "sample")(sample) is sample or isinstance(space, gs.Box)


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (gs.Discrete(3), 2),
        (gs.Discrete(3), np.int64(2)),
        (gs.Discrete(3), np.uint8(2)),
        (gs.Discrete(3), np.array(2)),
        (gs.Discrete(3, start=-2), -2),
        (BOX, np.array([1, -1], np.float32)),
        (BOX, np.array([0.5, 0.5], np.float16)),
        (BOX, [0, 0.5]),
        (BOX, (0, 0.5)),
        (gs.Box(0, 1, (), np.float64), 0.5),
        (gs.Box(0, 9, (), np.int64), np.int64(9)),
        (gs.Box(-np.inf, np.inf, (1,)), np.array([np.inf], np.float32)),
        (gs.Text(3), "abc"),
        (NESTED, GOOD),
    ],
)
def test_actions_in_the_space_are_taken_silently(space: Any, action: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_action(space, action)


@pytest.mark.parametrize(
    ("space", "action", "field", "words"),
    [
        (gs.Discrete(3), 3, "action", "is 3, expected an integer from 0 to 2"),
        (gs.Discrete(3), -1, "action", "is -1, expected an integer from 0 to 2"),
        (gs.Discrete(3), np.int64(3), "action", "from 0 to 2"),
        (gs.Discrete(3, start=5), 2, "action", "from 5 to 7"),
        (gs.Discrete(3), 2**70, "action", "from 0 to 2"),
        (gs.Discrete(3), 1.0, "action", r"is 1.0 \(float\)"),
        (gs.Discrete(3), "left", "action", r"is 'left' \(str\)"),
        (gs.Discrete(3), None, "action", "is None"),
        (gs.Discrete(3), np.array([1]), "action", r"dtype int64 and shape \(1,\)"),
        (BOX, np.zeros(2), "action", r"dtype float64 .*, expected dtype float32 and shape \(2,\)"),
        (BOX, np.zeros(3, np.float32), "action", r"shape \(3,\), expected .* shape \(2,\)"),
        (BOX, np.array([0, 2], np.float32), "action", r"holds 2.0 at \[1\], expected from -1.0"),
        (BOX, np.array([np.nan, 0], np.float32), "action", r"holds nan at \[0\]"),
        (BOX, [0, 2], "action", r"holds 2.0 at \[1\]"),
        (BOX, [0], "action", r"got one of shape \(1,\)"),
        (BOX, [0, "x"], "action", "got one of <U"),
        (BOX, "xy", "action", r"is 'xy' \(str\)"),
        (BOX, {}, "action", "expected dtype float32"),
        (gs.Box(0, 9, (), np.int64), 0.5, "action", "0.5 is not an integer"),
        (gs.Box(0, 9, (), np.int64), np.float64(1), "action", "expected dtype int64"),
        (gs.Text(3), "abcd", "action", "which is not in Text"),
        (gs.MultiBinary(2), np.array([0, 2], np.int8), "action", "which is not in MultiBinary"),
        (gs.MultiDiscrete([2, 2]), None, "action", "which is not in MultiDiscrete"),
        (gs.Sequence(gs.Discrete(2)), [0, 1], "action", "expected a tuple"),
        (gs.Sequence(gs.Discrete(2)), (0, 2), "action[1]", "is 2, expected an integer"),
        (gs.Sequence(BOX, stack=True), np.full((2, 2), 3, np.float32), "action[0]", "holds 3.0"),
        (gs.Sequence(BOX, stack=True), 5, "action", "expected stacked samples"),
        (gs.Graph(gs.Discrete(2), None), 5, "action", "which is not in Graph"),
        (gs.OneOf([gs.Discrete(2)]), 0, "action", "expected a pair of number and sample"),
        (gs.OneOf([gs.Discrete(2)]), (1, 0), "action[0]", "is 1, expected an integer from 0 to 0"),
        (gs.OneOf([gs.Discrete(2)]), (0, 5), "action[1]", "is 5, expected an integer from 0 to 1"),
        (NESTED, 3, "action", "is 3, expected a dict"),
        (NESTED, {"a": GOOD["a"]}, "action", "lacks 'b'"),
        (NESTED, {**GOOD, "c": 1}, "action", "has 'c', expected only 'a', 'b'"),
        (NESTED, {**GOOD, "a": 5}, "action['a']", "expected a tuple"),
        (NESTED, {**GOOD, "a": (1,)}, "action['a']", "has 1 elements, expected 2"),
        (NESTED, {**GOOD, "a": (7, GOOD["a"][1])}, "action['a'][0]", "is 7, expected an integer"),
        (NESTED, {**GOOD, "b": np.zeros(3, np.int8)}, "action['b']", "MultiBinary"),
    ],
)
def test_actions_outside_are_refused_with_the_reason(
    space: Any, action: Any, field: str, words: str
) -> None:
    with pytest.raises(InvalidActionError, match=words) as caught:
        check_action(space, action)
    assert caught.value.field == field
    assert caught.value.message.startswith(field)
    assert caught.value.hint is not None


def test_long_values_are_cut_short_in_errors() -> None:
    with pytest.raises(InvalidActionError) as caught:
        check_action(gs.Text(3), "x" * 100_000)
    assert len(str(caught.value)) < 600


def test_discrete_reader_gives_integers() -> None:
    read = discrete_reader(gs.Discrete(3, start=-1), "x")
    for sample in (-1, np.int64(-1), np.int8(-1), np.array(-1)):
        assert type(read(sample)) is int and read(sample) == -1
    with pytest.raises(InvalidActionError):
        read(2)


@pytest.mark.parametrize(
    "space",
    [
        gs.Box(0, 255, (2,), np.uint8),
        gs.Box(np.zeros(2, np.int8), np.ones(2, np.int8), dtype=np.bool_),
        gs.Box(-1, 1, (2,), np.float16),
    ],
)
def test_box_reader_takes_arrays_uncopied(space: gs.Box) -> None:
    array = np.ones(2, space.dtype)
    assert box_reader(space, "x")(array) is array


def test_box_reader_converts_what_fits_without_loss() -> None:
    read = box_reader(gs.Box(0, 1000, (2,), np.int64), "x")
    for sample in (np.array([1, 2], np.uint8), [1, 2], (1.0, 2.0)):
        array = read(sample)
        assert array.dtype == np.int64 and array.tolist() == [1, 2]


def test_box_reader_checks_bounds_that_the_dtype_does_not_imply() -> None:
    with pytest.raises(InvalidActionError, match=r"holds 255 at \[0\]"):
        box_reader(gs.Box(0, 254, (1,), np.uint8), "x")(np.array([255], np.uint8))
    fixed = gs.Box(np.ones(1, np.int8), np.ones(1, np.int8), dtype=np.bool_)
    with pytest.raises(InvalidActionError, match=r"holds False at \[0\]"):
        box_reader(fixed, "x")(np.array([False]))


@pytest.mark.parametrize("sample", [0.5, np.float64(0.5), np.array(0.5), np.float32(0.5)])
def test_scalar_reader_gives_python_scalars(sample: Any) -> None:
    read = scalar_reader(gs.Box(0, 1, (), np.float64), "x")
    assert type(read(sample)) is float and read(sample) == 0.5


@pytest.mark.parametrize("sample", [1.5, np.float64(-1), np.array(np.nan), float("nan"), "x", True])
def test_scalar_reader_refuses_what_lies_outside(sample: Any) -> None:
    with pytest.raises(InvalidActionError, match=r"^x "):
        scalar_reader(gs.Box(0, 1, (), np.float64), "x")(sample)


def test_scalar_reader_gives_what_the_dtype_holds() -> None:
    read = scalar_reader(gs.Box(0, 1, (), np.float32), "x")
    assert read(0.1) == np.float32(0.1).item() != 0.1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has 0 characters, expected 1 to 3"),
        ("abab", "has 4 characters, expected 1 to 3"),
        ("abc", "holds the character 'c'"),
        (5, "expected a string"),
        (None, "expected a string"),
    ],
)
def test_text_reader_tells_why(text: Any, words: str) -> None:
    read = sample_reader(gs.Text(3, charset="ab"), "x")
    assert read("ab") == "ab"
    with pytest.raises(InvalidActionError, match=words):
        read(text)
