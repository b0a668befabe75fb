"""What an environment's author subclasses: `Action`, `Observation` and `State`.

Names and defaults are those of OpenEnv, so that models written for it work here; `truncated` is
added because Gymnasium tells the end of an episode from its being cut off.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from openenv_gym.models.comparing import equal


__all__ = ["Action", "Observation", "State", "StepResult"]

ObsT = TypeVar("ObsT")


class _Comparable(BaseModel):
    """A model whose instances can be compared when they hold arrays: Pydantic's own raise then."""

    def __eq__(self, other: object) -> bool:
        """Tell whether another one is of the same class and the same to the bit."""
        return equal(self, other) if isinstance(other, BaseModel) else NotImplemented


class Action(_Comparable):
    """What the agent does. Subclasses add the fields of their environment.

    Attributes:
        metadata: Notes of the caller; no part of the action space.
    """

    model_config = ConfigDict(
        extra="forbid", validate_assignment=True, arbitrary_types_allowed=True
    )

    metadata: dict[str, Any] = Field(default_factory=dict)


class Observation(_Comparable):
    """What the agent sees. Subclasses add the fields of their environment.

    Attributes:
        done: The episode is over, for whichever reason.
        truncated: It was cut off (a time limit, say) rather than ended by its own rules;
            implies `done`.
        reward: Reward of the step that led here; None counts as 0.
        metadata: What Gymnasium calls ``info``; no part of the observation space.
    """

    model_config = ConfigDict(
        extra="forbid", validate_assignment=True, arbitrary_types_allowed=True
    )

    done: bool = False
    truncated: bool = False
    reward: bool | int | float | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _truncated_is_done(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("truncated") and "done" not in data:
            return {**data, "done": True}
        return data

    @field_validator("reward", mode="before")
    @classmethod
    def _plain_reward(cls, reward: Any) -> Any:
        # Pydantic would turn a NumPy integer into a float.
        return reward.item() if isinstance(reward, np.generic) else reward

    @property
    def terminated(self) -> bool:
        """The episode ended by its own rules (Gymnasium's ``terminated``)."""
        return self.done and not self.truncated


class State(_Comparable):
    """What the environment tells about itself, beside what the agent sees.

    Attributes:
        episode_id: Name of the running episode.
        step_count: Steps taken in it.
    """

    model_config = ConfigDict(extra="allow", validate_assignment=True, arbitrary_types_allowed=True)

    episode_id: str | None = None
    step_count: int = Field(default=0, ge=0)


@dataclass
class StepResult(Generic[ObsT]):
    """What a typed client returns from `reset` and `step`.

    Attributes:
        observation: The observation model.
        reward: Reward of the step.
        done: The episode is over.
        truncated: It was cut off rather than ended by its own rules.
        metadata: The environment's ``info``.
    """

    observation: ObsT
    reward: float | None = None
    done: bool = False
    truncated: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        """Tell whether another one holds the same to the bit."""
        return equal(vars(self), vars(other)) if isinstance(other, StepResult) else NotImplemented
