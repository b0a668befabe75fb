"""Rubrics that tests name as text."""

from __future__ import annotations

from typing import Any

from openenv_gym.rubrics import Rubric, WeightedSum


class Gain(Rubric):
    """What the step gained, as the environment has it."""

    def forward(self, action: Any, observation: Any) -> float:
        return float(observation.reward)


class Thrift(Rubric):
    """Less for fees."""

    def forward(self, action: Any, observation: Any) -> float:
        return -float(observation.metadata["cost"])


def gain_and_thrift() -> Rubric:
    return WeightedSum([Gain(), Thrift()], [0.5, 0.5])
