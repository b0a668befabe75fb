"""What an agent's turns lead to, and what an episode adds up to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openenv_gym.errors import OpenEnvGymError


__all__ = ["Episode", "Turn"]


@dataclass(frozen=True)
class Turn:
    """What an agent is told after it began or did something.

    Attributes:
        text: For the model to read.
        reward: What it earned.
        done: The episode is over.
        truncated: It was cut off.
        refused: What the agent did was no action, or the tool failed; the text says why.
        components: Scores of the parts of the environment's rubric, by dotted name; NaN for a part
            that did not run.
        metadata: The environment's info.
    """

    text: str
    reward: float = 0.0
    done: bool = False
    truncated: bool = False
    refused: bool = False
    components: Mapping[str, float] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Episode:
    """The sum of the turns of an episode; plain data.

    Attributes:
        seed: What it was seeded with.
        turns: What the agent did, whether it was taken or not.
        refused: How much of that was not.
        reward: Sum of the rewards.
        components: Sums of the scores of the rubric's parts, by dotted name; NaN for a part that
            never ran.
        done: It is over.
        truncated: It was cut off.
        failure: Why it was given up, where its server failed.
        unfinished_reward: What leaving it before its end earns.
        must_raise: A failure is an exception for whoever asks what it earned.
    """

    seed: int | None = None
    turns: int = 0
    refused: int = 0
    reward: float = 0.0
    components: dict[str, float] = field(default_factory=dict)
    done: bool = False
    truncated: bool = False
    failure: OpenEnvGymError | None = None
    unfinished_reward: float = 0.0
    must_raise: bool = False

    @property
    def score(self) -> float:
        """What it earned so far, and where it is not over, what leaving it earns."""
        return self.reward if self.done else self.reward + self.unfinished_reward

    def add(self, turn: Turn) -> None:
        """Count a turn of the agent."""
        self.turns += 1
        self.refused += turn.refused
        self.reward += turn.reward
        self.done = self.done or turn.done
        self.truncated = self.truncated or turn.truncated
        for name, score in turn.components.items():
            before = self.components.get(name, math.nan)
            if math.isnan(before):
                self.components[name] = score
            elif not math.isnan(score):
                self.components[name] = before + score
