"""Rubrics that judge an episode when it is over, and share the score out among its steps."""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Mapping
from typing import Any, ClassVar

import numpy as np
from pydantic import BaseModel

from openenv_gym.errors import ConfigurationError
from openenv_gym.rubrics.base import Rubric, to_score
from openenv_gym.rubrics.checks import finite
from openenv_gym.rubrics.waiting import settle


__all__ = ["ExponentialDiscountingTrajectoryRubric", "TrajectoryRubric"]

Step = tuple[Any, Any]


class TrajectoryRubric(Rubric):
    """Keeps the steps of an episode, and scores them with the last one.

    Subclasses write `score_trajectory`, and `compute_step_rewards` where the credit of steps is not
    simply the rewards that they got.

    A trajectory is bounded: beyond `max_steps` or `max_bytes` it is an error, as a part of it would
    have a score that looks like that of the whole. `keep` says what is kept of a step.

    Args:
        intermediate_reward: Score of each step but the last.

    Attributes:
        max_steps: How many steps are kept.
        max_bytes: How large they may be, in bytes: their arrays, text and bytes, and 100 for
            each value beside them.

    Raises:
        ConfigurationError: `intermediate_reward` is no finite number.
    """

    state_fields: ClassVar[tuple[str, ...]] = ("intermediate_reward",)
    max_steps: int = 10_000
    max_bytes: int = 256 << 20

    def __init__(self, intermediate_reward: float = 0.0) -> None:
        self.intermediate_reward = intermediate_reward

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Begin with an empty trajectory."""
        made = super().__new__(cls)
        made._begin()
        return made

    def _begin(self) -> None:
        self._trajectory: list[Step] = []
        self._bytes = 0
        self._final_score: float | None = None

    @property
    def intermediate_reward(self) -> float:
        """Score of each step but the last."""
        return self._intermediate_reward

    @intermediate_reward.setter
    def intermediate_reward(self, value: float) -> None:
        self._intermediate_reward = finite("intermediate_reward", value)

    def keep(self, action: Any, observation: Any) -> Step:
        """Return what is kept of a step: an action, and an observation.

        By default a shallow copy of the observation, as the server sets its reward afterwards. An
        environment that writes into the same array in each step needs more than that.
        """
        if isinstance(observation, BaseModel):
            observation = observation.model_copy()
        return action, observation

    def forward(self, action: Any, observation: Any) -> float | Awaitable[float]:
        """Keep a step; return the score of the trajectory with the last one.

        Args:
            action: What was done.
            observation: What came of it; where its `done` is true, the trajectory is complete.

        Raises:
            ConfigurationError: The trajectory is too large.
        """
        return settle(self._run(action, observation))

    def _run(self, action: Any, observation: Any) -> Generator[Any, Any, float]:
        if self._final_score is not None:
            self._begin()  # a new episode, of which nobody told
        step = self.keep(action, observation)
        steps, size = len(self._trajectory) + 1, self._bytes + _size(step)
        if steps > self.max_steps or size > self.max_bytes:
            raise ConfigurationError(
                f"A trajectory of {steps} steps and {size} bytes is beyond the limits of "
                f"{self.max_steps} steps and {self.max_bytes} bytes.",
                field="max_steps" if steps > self.max_steps else "max_bytes",
                hint=f"Raise `max_steps` or `max_bytes` of {type(self).__name__}, or keep less of "
                "a step (`keep`).",
            )
        self._trajectory.append(step)
        self._bytes = size
        if not getattr(observation, "done", False):
            return self._intermediate_reward
        score = yield self.score_trajectory(list(self._trajectory))
        self._final_score = to_score(score, type(self).__name__)
        return self._final_score

    def score_trajectory(self, trajectory: list[Step]) -> float | Awaitable[float]:
        """Return the score of an episode; may be a coroutine function.

        Args:
            trajectory: What `keep` returned of each step.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no `score_trajectory`.")

    def compute_step_rewards(self) -> list[float]:
        """Return the credit of each step; by default what each of them scored."""
        rewards = [self._intermediate_reward] * len(self._trajectory)
        if rewards and self._final_score is not None:
            rewards[-1] = self._final_score
        return rewards

    def reset(self) -> None:
        """Begin a new trajectory."""
        super().reset()
        self._begin()

    @property
    def trajectory(self) -> list[Step]:
        """What was kept of the steps so far; a copy."""
        return list(self._trajectory)


class ExponentialDiscountingTrajectoryRubric(TrajectoryRubric):
    """Gives step t of T the credit ``gamma ** (T - 1 - t)`` times the final score.

    Args:
        gamma: Discount factor, from 0 (all to the last step) to 1 (the same to each).
        intermediate_reward: Score of each step but the last.

    Raises:
        ConfigurationError: `gamma` is not from 0 to 1.
    """

    state_fields: ClassVar[tuple[str, ...]] = (*TrajectoryRubric.state_fields, "gamma")

    def __init__(self, gamma: float = 0.99, intermediate_reward: float = 0.0) -> None:
        super().__init__(intermediate_reward)
        self.gamma = gamma

    @property
    def gamma(self) -> float:
        """Discount factor."""
        return self._gamma

    @gamma.setter
    def gamma(self, value: float) -> None:
        self._gamma = finite("gamma", value, 0.0, 1.0)

    def compute_step_rewards(self) -> list[float]:
        """Return the credit of each step, once the episode is over; none before."""
        score, steps = self._final_score, len(self._trajectory)
        if score is None:
            return []
        return [score * self._gamma ** (steps - 1 - step) for step in range(steps)]


def _size(value: Any, depth: int = 8) -> int:
    """Return about how many bytes a value holds."""
    if isinstance(value, np.ndarray):
        return value.nbytes + 100
    if isinstance(value, (str, bytes, bytearray)):
        return len(value) + 100
    if depth == 0:
        return 100
    if isinstance(value, BaseModel):
        value = vars(value)
    if isinstance(value, Mapping):
        return 100 + sum(_size(each, depth - 1) for each in value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return 100 + sum(_size(each, depth - 1) for each in value)
    return 100
