"""A language model as a rubric."""

from openenv_gym.rubrics.judge.chat import ChatModel
from openenv_gym.rubrics.judge.judge import LLMJudge


__all__ = ["ChatModel", "LLMJudge"]
