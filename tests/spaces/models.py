"""Models that the tests of rules and of mappings share."""

# No `from __future__ import annotations`: Pydantic needs the annotations themselves.

import enum
from typing import Annotated, Any, Literal

import numpy as np
from gymnasium import spaces as gs
from pydantic import (
    BaseModel,
    Field,
    create_model,
)

from openenv_gym.models import Action, Array
from openenv_gym.spaces import ModelMapping


class Colour(enum.Enum):
    RED = "r"
    GREEN = "g"
    CRIMSON = "r"  # noqa: PIE796 - another name for RED


class Level(enum.IntEnum):
    LOW = 10
    HIGH = 20


class Pose(BaseModel):
    x: float = Field(0.0, ge=-1, le=1)
    turned: bool = False


class Everything(Action):
    flag: bool = False
    count: int = Field(3, ge=1, le=5)
    number: int = 7
    share: float = Field(0.5, ge=0, le=1)
    word: Literal["b", "a"] = "a"
    colour: Colour = Colour.RED
    text: str = Field("x", max_length=4)
    vector: Annotated[np.ndarray, Array((2,), "float32", -1, 1)] = Field(
        default_factory=lambda: np.zeros(2, np.float32)
    )
    pose: Pose = Pose()
    key: Annotated[int, gs.Discrete(4, start=2)] = 2
    keys: Annotated[np.ndarray, gs.MultiBinary(2)] = Field(
        default_factory=lambda: np.zeros(2, np.int8)
    )


def one(annotation: Any, info: Any = ...) -> ModelMapping[Any]:
    """The mapping of an action with one field of that type."""
    return ModelMapping.of(create_model("One", __base__=Action, field=(annotation, info)))
