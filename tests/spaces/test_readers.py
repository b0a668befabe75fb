"""Readers of samples: what they give and what they refuse."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as gs
from hypothesis import given, settings

from openenv_gym.errors import InvalidActionError
from openenv_gym.spaces.readers import box_reader, discrete_reader, sample_reader, scalar_reader

from .strategies import seeds, spaces


# Gymnasium's Graph takes elements of a batched Box of shape () for Python numbers.
@pytest.mark.filterwarnings("ignore:.*Casting input x")
@settings(max_examples=60, deadline=None)
@given(space=spaces(), seed=seeds)
def test_a_reader_takes_what_its_space_samples(space: gymnasium.Space[Any], seed: int) -> None:
    space.seed(seed)
    sample = space.sample()
    assert sample_reader(space, "sample")(sample) is sample or isinstance(space, gs.Box)


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
