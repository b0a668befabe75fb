"""A hosted environment as it can be carried: arrays of NumPy, and spaces of Gymnasium's own."""

from __future__ import annotations

from typing import Any

import gymnasium

from openenv_gym.spaces.stand_ins import carried_space


__all__ = ["as_carried", "stand_ins_of"]


def as_carried(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Return an environment whose arrays and spaces the wire has a form for.

    Raises:
        SpaceError: Nothing stands for one of its spaces.
    """
    env = _with_numpy_arrays(env)
    action, of_action = carried_space(env.action_space, "action_space", observed=False)
    seen, of_seen = carried_space(env.observation_space, "observation_space", observed=True)
    if action is env.action_space and seen is env.observation_space:
        return env
    return _StandIns(env, action, seen, {**of_action, **of_seen})


def stand_ins_of(env: object) -> dict[str, str]:
    """Return the class of each space that another one stands for, by its path."""
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, _StandIns):
            return dict(env.openenv_stand_ins)
        env = env.env
    return {}


class _StandIns(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment with other spaces, of which its samples are samples as well."""

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        action_space: gymnasium.Space[Any],
        observation_space: gymnasium.Space[Any],
        stand_ins: dict[str, str],
    ) -> None:
        super().__init__(env)
        self.action_space = action_space
        self.observation_space = observation_space
        self.openenv_stand_ins = stand_ins


def _with_numpy_arrays(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Convert JAX's arrays, for which the wire has no form, as Gymnasium's own wrapper does."""
    if not (env.metadata or {}).get("jax"):
        return env
    from gymnasium.wrappers import JaxToNumpy

    wrapped: gymnasium.Env[Any, Any] = JaxToNumpy(env)
    return wrapped
