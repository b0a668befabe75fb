"""Rubrics: rewards that are put together from parts, with OpenEnv's names."""

from openenv_gym.rubrics.base import Rubric
from openenv_gym.rubrics.containers import Gate, RubricDict, RubricList, Sequential, WeightedSum
from openenv_gym.rubrics.loading import load_rubric
from openenv_gym.rubrics.trajectory import (
    ExponentialDiscountingTrajectoryRubric,
    TrajectoryRubric,
)


__all__ = [
    "ExponentialDiscountingTrajectoryRubric",
    "Gate",
    "Rubric",
    "RubricDict",
    "RubricList",
    "Sequential",
    "TrajectoryRubric",
    "WeightedSum",
    "load_rubric",
]
