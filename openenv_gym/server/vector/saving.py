"""States of single sub-environments, in the form of those of a session with one environment."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.wrappers import TimeLimit

from openenv_gym.server.adapter import TypedEnv
from openenv_gym.server.environment import Environment
from openenv_gym.server.operations import read_saved
from openenv_gym.server.scoring import begin_scoring


__all__ = ["restore_sub_environment", "save_sub_environment"]


def save_sub_environment(env: gymnasium.Env[Any, Any]) -> list[Any]:
    """Return what `restore_sub_environment` takes: the number of steps, and the state.

    Raises:
        NotImplementedError: The environment cannot do that.
    """
    environment = _typed(env, "save")
    steps = env._elapsed_steps if isinstance(env, TimeLimit) else environment._step_count
    return [steps, environment.save_state()]


def restore_sub_environment(env: gymnasium.Env[Any, Any], saved: Any) -> None:
    """Return to a state that was saved, here or by a session with one environment.

    Raises:
        ProtocolError: It is no such thing.
        InvalidOptionError: The environment does not take it.
        NotImplementedError: The environment cannot do that.
    """
    environment = _typed(env, "restore")
    steps, state = read_saved(saved)
    environment.restore_state(state)
    if environment.rubric is not None:
        begin_scoring(environment.rubric)  # the steps that led to this state it cannot know
    if isinstance(env, TimeLimit):
        env._elapsed_steps = steps  # type: ignore[assignment]  # it is None before a reset


def _typed(env: gymnasium.Env[Any, Any], verb: str) -> Environment[Any, Any, Any]:
    base = env.unwrapped
    if isinstance(base, TypedEnv):
        return base.environment
    raise NotImplementedError(f"{type(base).__name__} cannot {verb} its state.")
