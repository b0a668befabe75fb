"""Actions, observations and states beside each other, arrays among what they hold."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import BaseModel

from openenv_gym.models import Action, Array, Observation, State, StepResult


class Mask(BaseModel):
    legal: Annotated[np.ndarray, Array((3,), "int8")]


class Board(Observation):
    cells: Annotated[np.ndarray, Array((2, 2), "float32")]
    mask: Mask | None = None


class Push(Action):
    force: Annotated[np.ndarray, Array((2,), "float64")]


def board(**changes: Any) -> Board:
    fields: dict[str, Any] = {
        "cells": np.array([[1, np.nan], [3, 4]], np.float32),
        "mask": Mask(legal=np.array([1, 0, 1], np.int8)),
        "reward": 1.0,
        "metadata": {"action_mask": np.ones(2, np.int8), "parts": [{"a": np.zeros(1)}, np.nan]},
    }
    return Board.model_construct(**{**fields, **changes})


def test_equal_ones_are_equal() -> None:
    assert board() == board()
    assert not (board() != board())  # noqa: SIM202
    assert Push(force=np.ones(2)) == Push(force=np.ones(2))
    assert State(position=np.ones(2)) == State(position=np.ones(2))  # type: ignore[call-arg]
    results = [StepResult(board(), 1.0, metadata={"mask": np.ones(1)}) for _ in range(2)]
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "changes",
    [
        {"cells": np.array([[1, np.nan], [3, 5]], np.float32)},
        {"cells": np.array([[1, np.nan], [3, 4]], np.float64)},
        {"cells": np.array([1, np.nan, 3, 4], np.float32)},
        {"cells": [[1.0, np.nan], [3.0, 4.0]]},
        {"mask": Mask(legal=np.array([1, 1, 1], np.int8))},
        {"mask": None},
        {"reward": 2.0},
        {"metadata": {"action_mask": np.zeros(2, np.int8), "parts": [{"a": np.zeros(1)}, np.nan]}},
        {"metadata": {"action_mask": np.ones(2, np.int8), "parts": ({"a": np.zeros(1)}, np.nan)}},
        {"metadata": {"action_mask": np.ones(2, np.int8)}},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_whatever_differs_makes_a_difference(changes: dict[str, Any]) -> None:
    assert board() != board(**changes)
    assert board(**changes) != board()
    assert StepResult(board()) != StepResult(board(**changes))


def test_other_classes_are_others() -> None:
    class Other(Board):
        pass

    assert board() != Other.model_construct(**vars(board()))
    assert board() != 3
    assert Push(force=np.ones(2)) != Push(force=np.zeros(2))
    assert State(position=np.ones(2)) != State(position=np.zeros(2))  # type: ignore[call-arg]
    assert State(step_count=1) != State(step_count=2)
