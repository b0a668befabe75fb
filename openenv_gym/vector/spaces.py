"""Spaces of a vector environment, from what its servers tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
from gymnasium.spaces.utils import is_space_dtype_shape_equiv
from gymnasium.vector.utils import batch_differing_spaces, batch_space

from openenv_gym import errors
from openenv_gym.spaces import space_from_data
from openenv_gym.vector.member import Member


__all__ = ["VectorSpaces", "as_mismatch", "read_spaces"]

# In the words of `AsyncVectorEnv`.
_UNEQUAL = (
    "RemoteVectorEnv(..., observation_mode='same') however some of the sub-environments "
    "observation spaces are not equivalent."
)
_UNLIKE = (
    "RemoteVectorEnv(..., observation_mode='different' or custom space) however the "
    "sub-environment's observation spaces do not share a common shape and dtype."
)
_HINT = "If this is intentional, use `observation_mode='different'` instead."


class VectorSpaces(NamedTuple):
    """Spaces of a single sub-environment, and of all together."""

    num_envs: int
    single_action: gymnasium.Space[Any]
    action: gymnasium.Space[Any]
    single_observation: gymnasium.Space[Any]
    observation: gymnasium.Space[Any]


def read_spaces(members: Sequence[Member], observation_mode: str | Any) -> VectorSpaces:
    """Return the spaces, where those of all sub-environments go together.

    Args:
        members: The servers; each has compared those of its own.
        observation_mode: See `RemoteVectorEnv`.

    Raises:
        RuntimeError: They do not, with what `AsyncVectorEnv` says about it.
    """
    described = [member.connection.environment for member in members]
    num_envs = sum(member.num_envs for member in members)
    action = space_from_data(described[0]["action_space"])
    if any(space_from_data(each["action_space"]) != action for each in described[1:]):
        raise RuntimeError(
            f"Some environments have an action space different from `{action}`. "
            "In order to batch actions, the action spaces from all environments must be equal."
        )
    single = space_from_data(described[0]["observation_space"])
    if observation_mode == "same":
        if any(space_from_data(each["observation_space"]) != single for each in described[1:]):
            raise RuntimeError(f"{_UNEQUAL} {_HINT}")
        observation = batch_space(single, num_envs)
    else:
        spaces = [
            space_from_data(data)
            for each in described
            for data in each["vector"]["observation_spaces"]
        ]
        if isinstance(observation_mode, str):
            single = spaces[0]
        else:
            observation, single = observation_mode
        if not all(is_space_dtype_shape_equiv(single, space) for space in spaces):
            raise RuntimeError(_UNLIKE)
        if isinstance(observation_mode, str):
            observation = batch_differing_spaces(spaces)
    return VectorSpaces(num_envs, action, batch_space(action, num_envs), single, observation)


def as_mismatch(error: errors.InvalidOptionError, observation_mode: str) -> Exception:
    """Return what `AsyncVectorEnv` raises where a server finds that spaces do not go together.

    Args:
        error: What opening a session raised.
        observation_mode: What the server was told.

    Returns:
        A RuntimeError; `error` itself where it is about something else.
    """
    if error.field == "action_space":
        return RuntimeError(error.message)
    if error.field != "observation_mode":
        return error
    if observation_mode == "same":
        return RuntimeError(f"{_UNEQUAL} {error.message} {_HINT}")
    return RuntimeError(f"{_UNLIKE} {error.message}")
