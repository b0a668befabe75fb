"""What agents are told about spaces."""

# No `from __future__ import annotations`: Pydantic needs the annotations themselves.

import json
from typing import Annotated, Any, Literal, Union

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as gs
from pydantic import BaseModel, Field, create_model

from openenv_gym.models import Action
from openenv_gym.spaces import ModelMapping, describe_space, model_from_space

from .corpus import SPACES
from .models import Colour, Level
from .typed import Circle, Square


def told(annotation: Any, info: Any = ...) -> dict[str, Any]:
    """What is said about a field of that type, apart from its being required."""
    described = ModelMapping.of(create_model("One", __base__=Action, field=(annotation, info)))
    found = described.describe()["fields"]["field"]
    assert found.pop("required") is True
    return dict(found)


class Move(Action):
    """Moves a piece.

    More words.
    """

    direction: Literal["left", "right"] = Field(description="Where to go")
    distance: int = Field(1, ge=1, le=8)


def test_a_model_is_described_field_by_field() -> None:
    assert ModelMapping.of(Move).describe() == {
        "model": "Move",
        "description": "Moves a piece.",
        "fields": {
            "direction": {
                "type": "Discrete",
                "low": 0,
                "high": 1,
                "labels": ["left", "right"],
                "description": "Where to go",
                "required": True,
            },
            "distance": {"type": "Discrete", "low": 1, "high": 8, "required": False},
        },
    }


@pytest.mark.parametrize(
    ("annotation", "info", "expected"),
    [
        (float, Field(ge=0), {"type": "Box", "low": 0.0, "high": None}),
        (int, ..., {"type": "Box", "dtype": "int64", "low": None, "high": None}),
        (Colour, ..., {"labels": ["r", "g"]}),
        (Level, ..., {"labels": [10, 20]}),
        (Literal["a", 1, True, None], ..., {"labels": ["a", 1, True, None]}),
        (str, Field(pattern="^[ab]{2}$"), {"charset": "ab", "pattern": "^[ab]{2}$"}),
        (str, Field(max_length=9), {"type": "Text", "min_length": 0, "max_length": 9}),
        (
            list[Colour],
            Field(min_length=2, max_length=2, description="Two of them"),
            {"shape": [2], "low": 0, "high": 1, "labels": ["r", "g"], "description": "Two of them"},
        ),
        (
            list[Colour],
            Field(min_length=1, max_length=5),
            {
                "type": "Sequence",
                "min_length": 1,
                "max_length": 5,
                "items": {"type": "Discrete", "low": 0, "high": 1, "labels": ["r", "g"]},
            },
        ),
        (set[Colour], ..., {"type": "MultiBinary", "labels": ["r", "g"]}),
    ],
)
def test_fields_say_what_their_spaces_cannot(
    annotation: Any, info: Any, expected: dict[str, Any]
) -> None:
    found = told(annotation, info)
    assert {key: found.get(key) for key in expected} == expected


def test_options_of_a_union_have_names() -> None:
    def names(annotation: Any) -> list[Any]:
        return [option["label"] for option in told(annotation)["options"]]

    assert names(int | None) == ["int", "None"]
    assert names(Circle | Square) == ["Circle", "Square"]
    shape = Annotated[Union[Circle, Square], Field(discriminator="kind")]  # noqa: UP007
    assert names(shape | list[Circle] | None) == ["Circle | Square", "list[Circle]", "None"]
    inner = told(list[shape])["items"]["options"]
    assert [option["label"] for option in inner] == ["circle", "square, rectangle"]
    assert inner[0]["fields"]["size"]["type"] == "Box"


def test_nested_models_bring_their_words() -> None:
    class Pose(BaseModel):
        """Where it stands."""

        x: float = Field(description="In metres")

    assert told(Pose)["description"] == "Where it stands."
    assert told(Pose, Field(description="Of the robot"))["description"] == "Of the robot"
    assert told(list[Pose])["items"]["fields"]["x"]["description"] == "In metres"


@pytest.mark.parametrize("space", SPACES.values(), ids=list(SPACES))
def test_every_space_is_described_in_plain_json(space: gymnasium.Space[Any]) -> None:
    described = describe_space(space)
    assert described["type"] == type(space).__name__
    assert json.loads(json.dumps(described, allow_nan=False)) == described


def test_bounds_that_differ_are_listed_and_large_arrays_summed_up() -> None:
    low = np.array([0, -np.inf], np.float32)
    assert describe_space(gs.Box(low, np.array([1, 2], np.float32)))["low"] == [0.0, None]
    lows = np.zeros((10, 10), np.float32)
    lows[0, 0] = -3
    assert describe_space(gs.Box(lows, lows + 1))["low"] == -3.0
    assert describe_space(gs.Box(lows, lows + 1))["high"] == 1.0


def test_a_model_of_a_space_is_described_by_its_fields() -> None:
    space = gs.Dict({"fuel": gs.Discrete(4)})
    described = ModelMapping.of(model_from_space(space, Action, "action")).describe()
    assert described["fields"] == {
        "fuel": {"type": "Discrete", "low": 0, "high": 3, "required": True}
    }


def test_a_space_of_another_class_is_only_named() -> None:
    class Own(gs.Discrete):
        pass

    assert describe_space(Own(3)) == {"type": "Own"}
