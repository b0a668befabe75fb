"""Rows of a dataset, and rewards: what an episode, or a part of its rubric, gave."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from openenv_gym import errors
from openenv_gym.agents.episode import Episode


__all__ = ["RewardComponent", "check_failure", "component", "episode_reward", "rows"]


def rows(
    number: int, *, seed: int = 0, prompt: str | Sequence[Mapping[str, Any]] = "", **columns: Any
) -> list[dict[str, Any]]:
    """Return rows of a dataset, each with a seed of its own: ``Dataset.from_list(rows(64))``.

    Args:
        number: How many.
        seed: That of the first one.
        prompt: What comes before the environment's first words: text, or messages.
        **columns: Further columns, equal in all rows.
    """
    if isinstance(prompt, str):
        messages = [{"role": "user", "content": f"{prompt}\n" if prompt else ""}]
    else:
        messages = [dict(message) for message in prompt]
    return [{"prompt": messages, "seed": seed + each, **columns} for each in range(number)]


def component(name: str) -> RewardComponent:
    """Return a reward function: the sum of what a part of the environment's rubric gave.

    TRL logs it as ``rewards/NAME``. Where the environment owns the reward already, give it the
    weight 0: ``GRPOConfig(reward_weights=[0.0, ...])``.

    Args:
        name: The part's dotted name, as in ``info["reward_components"]``.
    """
    return RewardComponent(name)


class RewardComponent:
    """One part of a rubric as TRL's reward function; see `component`."""

    def __init__(self, name: str) -> None:
        self._name = self.__name__ = name

    def __call__(
        self, *, environments: Any = None, episode: Any = None, **columns: Any
    ) -> list[float | None]:
        """Return what each episode got; None where the part never ran."""
        given = []
        for each in _episodes(environments, episode):
            score = math.nan if each is None else each.components.get(self._name, math.nan)
            given.append(None if math.isnan(score) else score)
        return given


def episode_reward(
    *, environments: Any = None, episode: Any = None, **columns: Any
) -> list[float | None]:
    """Return what each episode earned: TRL's reward function where no environment owns it.

    Args:
        environments: TRL's environments, or
        episode: what `rollout_func` returned.
        **columns: All else that TRL passes.
    """
    return [None if each is None else each.score for each in _episodes(environments, episode)]


def _episodes(environments: Any, episodes: Any) -> list[Episode | None]:
    if environments is not None:
        # One run may mix environments of several kinds, not all of them ours.
        episodes = [getattr(each, "episode", None) for each in environments]
    if episodes is None:
        raise errors.ConfigurationError(
            "These rewards are those of an environment, and there is none.",
            hint="Pass environment_factory=environment(id), or rollout_func=rollout_func(id).",
        )
    for each in episodes:
        if each is not None:
            check_failure(each)
    return list(episodes)


def check_failure(episode: Episode) -> None:
    """Raise what ended an episode, where that is no part of it: TRL shows it to the model alone.

    Raises:
        OpenEnvGymError: Its server failed.
    """
    if episode.failure is not None and episode.must_raise:
        raise episode.failure
