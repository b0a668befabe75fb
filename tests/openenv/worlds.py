"""Environments, models and clients for tests of clients."""

from __future__ import annotations

import enum
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from openenv_gym import EnvClient
from openenv_gym.models import Action, Array, Observation, State
from openenv_gym.server import Environment


class Mood(enum.Enum):
    CALM = "calm"
    WILD = "wild"


class Move(Action):
    by: int = Field(ge=-3, le=3)
    mood: Mood = Mood.CALM


class Seen(Observation):
    at: int = Field(ge=-100, le=100)
    picture: Annotated[np.ndarray, Array((2, 2), "float32")]


class WalkState(State):
    at: int = 0


class Walk(Environment[Move, Seen, WalkState]):
    """Walks along a line; the seed decides where it begins, `by=3` in the mood WILD raises."""

    action_model = Move
    observation_model = Seen

    def __init__(self, *, start: int | None = None) -> None:
        self.start = start
        self.at = 0

    def _see(self, **more: Any) -> Seen:
        return Seen(at=self.at, picture=np.full((2, 2), self.at, np.float32), **more)

    def reset(self, *, seed: int | None = None, options: Any = None, at: int | None = None) -> Seen:
        self.begin_episode(seed)
        drawn = int(self.np_random.integers(-10, 10))
        self.at = next(value for value in (at, self.start, drawn) if value is not None)
        return self._see(metadata={"mood": "calm"})

    def step(self, action: Move) -> Seen:
        if action.mood is Mood.WILD and action.by == 3:
            raise ValueError("too wild")
        self.at += action.by
        ending = self.count_step() >= 5
        return self._see(reward=float(action.by), done=ending, truncated=ending)

    @property
    def state(self) -> WalkState:
        return WalkState(episode_id=self._episode_id, step_count=self._step_count, at=self.at)


class WalkClient(EnvClient[Move, Seen, WalkState]):
    action_model = Move
    observation_model = Seen
    state_model = WalkState


class OldStyleClient(EnvClient[Any, Any, Any]):
    """Overrides the hooks as clients written for OpenEnv do."""

    def _step_payload(self, action: Any) -> dict[str, Any]:
        return {"by": action}

    def _parse_result(self, payload: dict[str, Any]) -> Any:
        from openenv_gym import StepResult

        return StepResult(
            observation=payload.get("observation", {})["at"],
            reward=payload.get("reward"),
            done=payload.get("done", False),
        )

    def _parse_state(self, payload: dict[str, Any]) -> Any:
        return payload.get("step_count")
