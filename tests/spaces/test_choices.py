"""Kinds of actions and legal actions as an agent is told them."""

from __future__ import annotations

import enum
import json
from typing import Any, Literal

import numpy as np
import pytest
from gymnasium import spaces
from pydantic import Field

from openenv_gym.models import Action
from openenv_gym.spaces import describe_kind
from openenv_gym.spaces.choices import masked_choices, noted_choices


class Piece(enum.Enum):
    ROOK = "rook"
    KING = "king"


class Move(Action):
    """Moves a piece.

    Nobody needs to read on.
    """

    column: int = Field(ge=1, le=7, description="Where to")
    piece: Piece = Piece.KING
    way: Literal["up", "down"]
    note: str = Field(default="", min_length=0, max_length=9)
    force: float = Field(default=1, ge=0, le=2)


class Column(Action):
    column: int = Field(ge=1, le=3)


class Call(Action):
    arguments: dict[str, Any] = Field(default_factory=dict)


def test_a_kind_of_action() -> None:
    kind = describe_kind(Move)
    assert json.loads(json.dumps(kind)) == kind
    assert (kind["name"], kind["description"]) == ("Move", "Moves a piece.")
    assert kind["schema"] == Move.model_json_schema()
    fields = kind["fields"]
    assert list(fields) == ["column", "piece", "way", "note", "force"]
    assert fields["column"] == {
        "type": "Discrete",
        "low": 1,
        "high": 7,
        "description": "Where to",
        "required": True,
    }
    assert (fields["piece"]["labels"], fields["piece"]["required"]) == (["rook", "king"], False)
    assert fields["way"]["labels"] == ["up", "down"]
    assert describe_kind(Column)["description"] == ""  # and not what a base class says of itself
    assert (fields["note"]["min_length"], fields["note"]["max_length"]) == (0, 9)
    assert (fields["force"]["low"], fields["force"]["high"]) == (0, 2)


def test_names_that_the_environment_knows() -> None:
    kind = describe_kind(Column, ["left", "middle", "right"])
    assert kind["fields"]["column"]["labels"] == ["left", "middle", "right"]
    assert "labels" not in describe_kind(Column, ["left", "right"])["fields"]["column"]


def test_a_model_without_a_space_has_its_schema_all_the_same() -> None:
    kind = describe_kind(Call)
    assert kind["fields"] is None
    assert "arguments" in kind["schema"]["properties"]


@pytest.mark.parametrize("dtype", [np.int8, np.bool_, np.int64])
def test_what_a_mask_leaves(dtype: type) -> None:
    mask = np.array([0, 1, 1], dtype)
    assert masked_choices("column", spaces.Discrete(3, start=5), mask) == [
        {"column": 6},
        {"column": 7},
    ]
    assert masked_choices("column", spaces.Discrete(3), mask.tolist()) == [
        {"column": 1},
        {"column": 2},
    ]


@pytest.mark.parametrize(
    ("space", "mask"),
    [
        (spaces.Discrete(3), [1, 1]),
        (spaces.Discrete(3), [[1, 1, 1]]),
        (spaces.Discrete(3), [0.5, 1, 1]),
        (spaces.Discrete(3), [[1], [1, 2], 3]),
        (spaces.Discrete(3), "101"),
        (spaces.Discrete(3), None),
        (spaces.MultiDiscrete([3]), [1]),
    ],
)
def test_what_is_no_mask(space: Any, mask: Any) -> None:
    assert masked_choices("column", space, mask) is None


@pytest.mark.parametrize(
    ("seen", "legal"),
    [
        ({"legal_actions": [2, 0]}, [{"move": 2}, {"move": 0}]),
        ({"legal_moves": ["e2e4"]}, [{"move": "e2e4"}]),
        ({"action_mask": [0, 0, 1]}, [{"move": 2}]),
        ({"legal_actions": []}, []),
        ({"legal_actions": [{"a": 1}]}, None),
        ({"legal_actions": "all"}, None),
        ({}, None),
    ],
)
def test_what_an_observation_lists(seen: dict[str, Any], legal: Any) -> None:
    assert noted_choices("move", spaces.Discrete(3), seen) == legal
