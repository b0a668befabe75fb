"""Actions that lie in their space or not, and what the error says."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as gs
from hypothesis import given, settings

from openenv_gym.errors import InvalidActionError
from openenv_gym.spaces.actions import check_action, check_hosted_action

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
    check_action(space, sample)
    check_hosted_action(space, sample)


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
        (gs.Text(3), "abcd", "action", "has 4 characters, expected 1 to 3"),
        (gs.Text(3), 5, "action", "is 5, expected a string"),
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


# -- actions for a hosted environment ---------------------------------------------------------


@pytest.mark.parametrize(
    "action",
    [
        np.array([5, -5], np.float32),
        np.array([0.5, 0.5], np.float64),
        np.array([np.nan, np.inf]),
        np.array([1, 2]),
        np.array([True, False]),
        [0.5, 2],
        (3, 4),
    ],
    ids=repr,
)
def test_a_hosted_box_takes_what_an_environment_may_clip_or_convert(action: Any) -> None:
    check_hosted_action(BOX, action)
    check_hosted_action(gs.Dict({"a": gs.Tuple([BOX])}), {"a": (action,)})
    check_hosted_action(gs.Dict({"a": gs.Tuple([BOX])}), {"a": [action]})
    check_hosted_action(gs.OneOf([BOX]), (0, action))
    check_hosted_action(gs.Sequence(BOX), (action,))


@pytest.mark.parametrize(
    ("space", "action", "field", "words"),
    [
        (BOX, np.zeros(3), "action", r"has shape \(3,\), expected \(2,\)"),
        (BOX, 0.5, "action", r"has shape \(\), expected \(2,\)"),
        (BOX, [[0], [0, 1]], "action", "is a list of dtype object, expected numbers"),
        (BOX, "xy", "action", "is a str of dtype <U2, expected numbers"),
        (BOX, None, "action", "is a NoneType of dtype object"),
        (BOX, np.zeros(2, complex), "action", "dtype complex128"),
        (gs.Box(0, 9, (2,), np.int64), np.zeros(2), "action", "dtype float64, .* fit int64"),
        (gs.Discrete(3), 3, "action", "is 3, expected an integer from 0 to 2"),
        (gs.Discrete(3), 1.0, "action", r"is 1.0 \(float\)"),
        (NESTED, {**GOOD, "a": (0, np.zeros(3))}, "action['a'][1]", "has shape"),
        (NESTED, {**GOOD, "a": (3, np.zeros(2))}, "action['a'][0]", "is 3"),
        (NESTED, {**GOOD, "a": (0,)}, "action['a']", "has 1 elements, expected 2"),
        (NESTED, {"a": GOOD["a"]}, "action", "lacks 'b'"),
        (gs.Sequence(BOX), (np.zeros(2), np.zeros(3)), "action[1]", "has shape"),
    ],
)
def test_a_hosted_environment_is_spared_what_makes_no_sense(
    space: Any, action: Any, field: str, words: str
) -> None:
    with pytest.raises(InvalidActionError, match=words) as caught:
        check_hosted_action(space, action)
    assert caught.value.field == field
