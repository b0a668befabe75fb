"""A Gymnasium environment whose rewards are a rubric's."""

from __future__ import annotations

from typing import Any

import gymnasium

from openenv_gym.models.types import Observation
from openenv_gym.rubrics.base import Rubric
from openenv_gym.server.scoring import begin_scoring, score_step


__all__ = ["SampleObservation", "ScoredEnv"]


class SampleObservation(Observation):
    """What a rubric sees of a step of a Gymnasium environment.

    `reward` is the environment's own, and `metadata` its ``info``.

    Attributes:
        value: The observation, a sample of the environment's space.
    """

    value: Any


class ScoredEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Replaces the rewards of an environment by the scores of a rubric.

    The rubric gets the action, a sample of the action space, and a `SampleObservation`.

    Args:
        env: The environment.
        rubric: The rubric, which is this environment's alone.
        time_limit: Steps after which the trainer ends an episode, without a word to anybody; None
            if never.

    Attributes:
        rubric: The rubric.
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], rubric: Rubric, time_limit: int | None
    ) -> None:
        super().__init__(env)
        self.rubric = rubric
        self._time_limit = time_limit
        self._steps = 0

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, for the rubric as well."""
        observation, info = self.env.reset(**kwargs)
        self._steps = 0
        begin_scoring(self.rubric)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step, and have it scored.

        Raises:
            RubricError: The rubric has no score.
        """
        value, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        cut = bool(truncated) or self._steps == self._time_limit
        # Not validated: the reward is whatever the environment gives.
        seen = SampleObservation.model_construct(
            value=value,
            reward=reward,
            done=bool(terminated) or cut,
            truncated=cut and not terminated,
            metadata=info,
        )
        score_step(self.rubric, action, seen)
        return value, seen.reward, terminated, truncated, seen.metadata
