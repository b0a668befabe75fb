"""Environments that the browser plays: one has a field of every kind, one a space of every kind."""

from __future__ import annotations

import enum
import json
import string
from typing import Annotated, Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from pydantic import BaseModel, Field

from openenv_gym.models import Action, Observation
from openenv_gym.server import Environment
from openenv_gym.spaces.json_form import sample_to_json


class Colour(enum.Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"
    GREEN = "green"


class Inner(BaseModel):
    """A part with parts."""

    share: float = Field(0.5, ge=0, le=1)
    name: str = Field("nobody", max_length=20)


class Walk(BaseModel):
    """Go somewhere."""

    kind: Literal["walk"] = "walk"
    metres: int = Field(1, ge=0, le=9000)


class Talk(BaseModel):
    """Say something."""

    kind: Literal["talk"] = "talk"
    text: str = Field(max_length=40)


class EverythingAction(Action):
    """One field of every kind."""

    number: int = Field(description="Any whole number")
    small: int = Field(ge=1, le=5)
    level: float = Field(ge=-1, le=1)
    flag: bool
    word: str = Field(max_length=20, pattern="^[a-z]*$")
    colour: Colour
    way: Literal["up", "down"]
    colours: set[Colour]
    pair: Annotated[list[int], Field(min_length=2, max_length=2)]
    many: list[float]
    inner: Inner
    deed: Walk | Talk
    maybe: int | None = None


class EverythingObservation(Observation):
    """What was done, as JSON."""

    said: str
    count: int


class Everything(Environment[EverythingAction, EverythingObservation, Any]):
    """Says what it was told, field by field."""

    action_model = EverythingAction
    observation_model = EverythingObservation

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> EverythingObservation:
        """Begin."""
        self.begin_episode(seed)
        said = f"seed {seed} options {json.dumps(options)}"
        return EverythingObservation(said=said, count=0)

    def step(self, action: EverythingAction) -> EverythingObservation:
        """Say what was done."""
        said = action.model_dump(mode="json", exclude={"metadata"})
        said["colours"].sort()
        count = self.count_step()
        return EverythingObservation(said=json.dumps(said), count=count, reward=0.5)


MARKED = "**bold** <b>b</b> <img src=nowhere> [link](http://evil.example) http://evil.example $x$"
"""What is Markdown, or HTML, or neither: text."""


class Marked(BaseModel):
    share: int = Field(1, description=MARKED)


Marked.__doc__ = MARKED


class OddAction(Action):
    number: int = Field(2**53 + 1, description=MARKED)
    flag: bool | None = None
    colours: set[Colour] | None = None
    deed: Walk | Talk
    inner: Marked


OddAction.__doc__ = MARKED


class Odd(Environment[OddAction, EverythingObservation, Any]):
    """Says what it was told, and gives rewards that are not finite."""

    action_model = OddAction
    observation_model = EverythingObservation

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> EverythingObservation:
        """Begin."""
        self.begin_episode(seed)
        return EverythingObservation(said="", count=0)

    def legal_actions(self) -> list[dict[str, Any]]:
        """Return the one thing that may be done."""
        return [{"deed": {"kind": "talk", "text": "hello"}, "flag": False}]

    def step(self, action: OddAction) -> EverythingObservation:
        """Say what was done."""
        said = action.model_dump_json(exclude={"metadata"})
        count = self.count_step()
        reward = [float("nan"), float("-inf"), 1.5][count % 3]
        return EverythingObservation(said=said, count=count, reward=reward)


class Spaces(gymnasium.Env[Any, Any]):
    """Says what it was told, in a space with every space of Gymnasium inside."""

    metadata = {"render_modes": []}

    def __init__(self) -> None:
        self.action_space = spaces.Dict(
            discrete=spaces.Discrete(3),
            large=spaces.Discrete(5000, start=-2),
            box=spaces.Box(-1, 1, (2,)),
            pixels=spaces.Box(0, 255, (2, 3), np.uint8),
            bits=spaces.MultiBinary(3),
            several=spaces.MultiDiscrete([3, 2]),
            text=spaces.Text(10, min_length=0),
            nested=spaces.Dict(inner=spaces.Discrete(2)),
            both=spaces.Tuple((spaces.Discrete(2), spaces.Text(3))),
            row=spaces.Sequence(spaces.Discrete(3)),
            either=spaces.OneOf((spaces.Discrete(3), spaces.Box(0, 1, (2,)))),
            graph=spaces.Graph(spaces.Box(0, 1, (1,)), None),
        )
        self.observation_space = spaces.Text(4000, min_length=0, charset=string.printable)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin."""
        super().reset(seed=seed)
        return "nothing yet", {}

    def step(self, action: Any) -> Any:
        """Say what was done."""
        said = json.dumps(sample_to_json(self.action_space, action))
        return said, 1.0, False, False, {}
