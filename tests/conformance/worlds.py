"""Environments with one defect each, and one without."""

from __future__ import annotations

import random
from enum import Enum
from typing import Annotated, Any, ClassVar, Literal

import gymnasium
import numpy as np
from pydantic import BaseModel, Field

from openenv_gym import (
    Action,
    CallToolAction,
    CallToolObservation,
    Environment,
    MCPEnvironment,
    Observation,
    ToolResultText,
    tool,
)


class Turn(Action):
    number: int = Field(ge=0, le=3)


class Sight(Observation):
    number: int = Field(ge=0, le=1000)


class Good(Environment[Any, Any, Any]):
    action_model = Turn
    observation_model = Sight

    def __init__(self) -> None:
        self.number = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Sight:
        self.begin_episode(seed)
        self.number = int(self.np_random.integers(500))
        return self.see()

    def step(self, action: Turn) -> Sight:
        self.number += action.number
        return self.see(over=self.count_step() >= 25)

    def see(self, over: bool = False) -> Sight:
        return Sight(number=self.number, reward=1.0, done=over)

    def save_state(self) -> Any:
        return {"number": self.number, "step": self._step_count}

    def restore_state(self, saved: Any) -> None:
        self.number, self._step_count = saved["number"], saved["step"]


class GlobalChance(Good):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Sight:
        self.begin_episode(seed)
        self.number = random.randrange(500)
        return self.see()


class AlwaysSeeds(Good):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Sight:
        from time import time_ns

        return super().reset(seed=time_ns() % 1000 if seed is None else seed)


class Shares(Good):
    last: ClassVar[list[int]] = [0]

    def step(self, action: Turn) -> Sight:
        self.last[0] = (self.last[0] + action.number) % 400
        self.number = self.last[0]
        return super().step(action)


class Forgets(Good):
    def save_state(self) -> Any:
        return {"number": 0, "step": self._step_count}


class TakesAnything(Good):
    def __init__(self, **options: Any) -> None:
        super().__init__()


class Infinite(Good):
    def see(self, over: bool = False) -> Sight:
        return Sight(number=self.number, reward=float("inf"), done=over)


class Unmakeable(Good):
    def __init__(self) -> None:
        raise RuntimeError("no moon today")


class Dull(Good):
    """Nothing is random, nothing saved: neither is a defect."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Sight:
        self.begin_episode(seed)
        self.number = 0
        return self.see()

    def save_state(self) -> Any:
        raise NotImplementedError


class Tools(MCPEnvironment[Any, Any, Any]):
    """Takes the JSON of calls, which nobody draws from a space of texts."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> ToolResultText:
        self.begin_episode(seed)
        return ToolResultText(text="hello")

    @tool
    def add(self, number: Literal[0, 9]) -> int:
        """Add a number."""
        return number

    @tool
    def wait(self) -> str:
        """Do nothing."""
        return "waited"

    def judge(self, action: CallToolAction, observation: CallToolObservation) -> None:
        assert observation.error is None, observation.error
        observation.reward = float(action.arguments.get("number", 0))


class Picky(Good):
    """Ends in an error where an action is not among the legal ones."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Sight:
        self.begin_episode(seed)
        self.number = 0
        return self.see()

    def legal_actions(self) -> list[Any]:
        return [Turn(number=0), Turn(number=2)]

    def step(self, action: Turn) -> Sight:
        assert action.number in (0, 2)
        self.number = action.number
        return self.see(over=self.count_step() >= 25)


class Way(Action):
    move: Literal["north", "east", "south"]


class PickyInWords(Picky):
    """Likewise, where the legal actions are told by name."""

    action_model = Way

    def legal_actions(self) -> list[Any]:
        return [Way(move="north"), {"move": "south"}]

    def step(self, action: Any) -> Sight:
        assert action.move in ("north", "south")
        self.number = ["north", "east", "south"].index(action.move)
        return self.see(over=self.count_step() >= 25)


class Colour(Enum):
    RED = 7
    BLUE = "blue"


class Corner(BaseModel):
    x: int = Field(ge=5, le=9)
    side: Literal["left", "right"]


class Brush(Action):
    colour: Colour
    corner: Corner
    strokes: Annotated[list[Literal["up", "down"]], Field(min_length=2, max_length=2)]
    wet: bool = False
    text: str = Field(default="", max_length=3)


class PickyInSeveralFields(Picky):
    """Likewise, where an action has several fields."""

    action_model = Brush

    def legal_actions(self) -> list[Any]:
        left = Corner(x=6, side="left")
        return [
            Brush(colour=Colour.RED, corner=left, strokes=["down", "up"], wet=True),
            {
                "colour": "blue",
                "corner": {"x": 9, "side": "right"},
                "strokes": ["up", "up"],
                "text": "a",
            },
        ]

    def step(self, action: Any) -> Sight:
        taken = [Brush.model_validate(each) for each in self.legal_actions()]
        assert action in taken, action
        self.number = 2 * taken.index(action)
        return self.see(over=self.count_step() >= 25)


class Clips(gymnasium.Env[Any, Any]):
    """Makes something of every number, as many environments do."""

    observation_space = gymnasium.spaces.Box(-9, 9, (), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.float32(self.np_random.uniform(-1, 1)), {}

    def step(self, action: Any) -> Any:
        try:
            number = float(action)
        except (TypeError, ValueError):
            number = 0.0
        return np.float32(np.clip(number, -1, 1)), 0.0, False, False, {}


class TakesAnyAction(Clips):
    """Makes something of what is no number, too; so it is where a server lets it."""

    action_space = gymnasium.spaces.Discrete(3)
