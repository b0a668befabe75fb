"""Trajectories: how they are made, and when two of them are equal."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium

from openenv_gym.conformance.acting import LegalChance
from openenv_gym.models.comparing import equal


__all__ = ["Moment", "play", "where_different"]


class Moment(NamedTuple):
    """What a reset or a step returned; a reset has neither reward nor flags."""

    observation: Any
    reward: Any = 0.0
    terminated: Any = False
    truncated: Any = False
    info: Any = None

    @property
    def is_last(self) -> bool:
        """Whether the episode is over."""
        return bool(self.terminated or self.truncated)


def play(
    env: gymnasium.Env[Any, Any], steps: int, seed: int | None, *, action_seed: int = 0
) -> list[Moment]:
    """Take random legal actions; a new episode, without a seed, follows each that ends.

    Args:
        env: The environment.
        steps: How many.
        seed: Of the first reset.
        action_seed: Of the actions.
    """
    chance = LegalChance(env, action_seed)
    observation, info = env.reset(seed=seed)
    moments = [Moment(observation, info=info)]
    for _ in range(steps):
        moment = Moment(*env.step(chance.act(info)))
        info = moment.info
        moments.append(moment)
        if moment.is_last:
            observation, info = env.reset()
            moments.append(Moment(observation, info=info))
    return moments


def where_different(first: list[Moment], second: list[Moment]) -> str | None:
    """Return where two trajectories part; None where they are equal. Infos do not count."""
    if len(first) != len(second):
        return f"{len(first)} moments against {len(second)}"
    for number, (one, other) in enumerate(zip(first, second, strict=True)):
        for name in ("observation", "reward", "terminated", "truncated"):
            left, right = getattr(one, name), getattr(other, name)
            if not equal(left, right):
                return f"moment {number}: {name} {left!r:.60} against {right!r:.60}"
    return None
