"""Environments in terms of models, for clients that speak OpenEnv's JSON."""

from __future__ import annotations

import os
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from openenv_gym.models import Action, Array, Observation, State
from openenv_gym.server import Environment


class Move(Action):
    by: int = Field(ge=-1000, le=1000)
    note: str = ""


class Position(Observation):
    at: int = Field(default=0, ge=-100_000, le=100_000)
    picture: Annotated[np.ndarray, Array((2, 2), np.uint8)] = Field(
        default_factory=lambda: np.zeros((2, 2), np.uint8)
    )


class Level(State):
    level: int = 0


class Place(State):
    pid: int


class Walk(Environment[Any, Any, Any]):
    """Walk along a line from where the seed says; 100 is the end, and the tenth step is late."""

    action_model = Move
    observation_model = Position

    def __init__(self, start: int = 0) -> None:
        self.start = start
        self.at = 0
        self.level = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None, level: int = 0
    ) -> Position:
        self.begin_episode(seed)
        self.at, self.level = (seed or 0) + self.start, level
        if level == 13:
            raise ValueError("no thirteenth floor")
        return self.seen()

    def step(self, action: Move) -> Position:
        if action.by == 13:
            raise RuntimeError("bad luck")
        if action.by == 14:
            raise SystemExit(3)
        self.at += action.by
        seen = self.seen()
        seen.reward = float("nan") if action.by == 15 else 1.5
        late = self.count_step() == 10
        seen.done, seen.truncated = self.at >= 100 or late, late and self.at < 100
        seen.metadata = {"by": np.int64(action.by), "odd": [np.nan, {1: (2, 3)}]}
        return seen

    def seen(self) -> Position:
        return Position(at=self.at, picture=np.full((2, 2), self.at % 256, np.uint8))

    @property
    def state(self) -> Level:
        return Level(episode_id=self.episode_id, step_count=self._step_count, level=self.level)


class Somewhere(Walk):
    """Tells in which process it is."""

    @property
    def state(self) -> Place:  # type: ignore[override]
        return Place(episode_id=self.episode_id, step_count=self._step_count, pid=os.getpid())


class Lessons:
    """Tasks of a course."""

    def __init__(self) -> None:
        self.lessons = [{"name": f"lesson {i}", "size": np.int64(i)} for i in range(3)]

    def list_splits(self) -> list[Any]:
        return ["train", "hard", {"name": "test", "type": "test"}]

    def list_tasks(self, split: str) -> list[Any]:
        return self.lessons if split == "train" else []

    def num_tasks(self, split: str) -> int:
        return len(self.list_tasks(split))

    def get_task(self, split: str, index: int) -> Any:
        return self.list_tasks(split)[index]

    def get_task_range(self, split: str, start: int | None, stop: int | None) -> list[Any]:
        return self.list_tasks(split)[start:stop]
