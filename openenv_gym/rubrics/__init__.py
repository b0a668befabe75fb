"""Rubrics: rewards that are put together from parts, with OpenEnv's names."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from openenv_gym.rubrics.base import Rubric
from openenv_gym.rubrics.containers import Gate, RubricDict, RubricList, Sequential, WeightedSum
from openenv_gym.rubrics.loading import load_rubric
from openenv_gym.rubrics.trajectory import (
    ExponentialDiscountingTrajectoryRubric,
    TrajectoryRubric,
)


if TYPE_CHECKING:
    from openenv_gym.rubrics.judge import ChatModel, LLMJudge

__all__ = [
    "ChatModel",
    "ExponentialDiscountingTrajectoryRubric",
    "Gate",
    "LLMJudge",
    "Rubric",
    "RubricDict",
    "RubricList",
    "Sequential",
    "TrajectoryRubric",
    "WeightedSum",
    "load_rubric",
]


def __getattr__(name: str) -> Any:
    """Import the judge when it is first used: most servers start without one."""
    if name in ("ChatModel", "LLMJudge"):
        return getattr(importlib.import_module("openenv_gym.rubrics.judge"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
