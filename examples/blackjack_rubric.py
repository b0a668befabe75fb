"""The reward of `grpo_blackjack.py`, which the server imports: it needs nothing of a trainer."""

from __future__ import annotations

from typing import Any

from openenv_gym.rubrics import Rubric, WeightedSum


__all__ = ["make_rubric"]


class Outcome(Rubric):
    """What the game gave: 1 for a win, 0 for a draw, -1 for a loss."""

    def forward(self, action: Any, observation: Any) -> float:
        """Return the game's own reward."""
        return float(observation.reward or 0.0)


class Legal(Rubric):
    """Whether the game came to its end by legal actions alone."""

    def forward(self, action: Any, observation: Any) -> float:
        """Return 1 with the last step of such a game."""
        return float(observation.done and "illegal_action" not in observation.metadata)


def make_rubric() -> Rubric:
    """Return the rubric of an environment."""
    return WeightedSum({"outcome": Outcome(), "legal": Legal()}, {"outcome": 0.8, "legal": 0.2})
