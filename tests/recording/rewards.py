"""Rubrics that tests name."""

from __future__ import annotations

from typing import Any

from openenv_gym.rubrics import Rubric, WeightedSum


class Upright(Rubric):
    """How upright CartPole's pole is."""

    def forward(self, action: Any, observation: Any) -> float:
        return 1.0 - abs(float(observation.value[2]))


class Right(Rubric):
    """Whether the action was to the right."""

    def forward(self, action: Any, observation: Any) -> float:
        assert "reward_components" not in observation.metadata
        return float(action == 1)


def make_rubric() -> Rubric:
    return WeightedSum({"upright": Upright(), "right": Right()}, {"upright": 0.75, "right": 0.25})


def make_other() -> Rubric:
    return WeightedSum({"upright": Upright(), "last": Last()}, {"upright": 0.5, "last": 0.5})


class Last(Rubric):
    """1 for the last step of an episode."""

    def forward(self, action: Any, observation: Any) -> float:
        return float(observation.done)


class Loud(Rubric):
    """Takes Echo's models."""

    def forward(self, action: Any, observation: Any) -> float:
        return float(len(action.message) + len(observation.echoed_message))
