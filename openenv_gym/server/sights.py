"""What somebody who watches a session sees of its operations. Knows nothing of the wire."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from openenv_gym import errors
from openenv_gym.server.host import EnvironmentHost, Host
from openenv_gym.server.vector.host import VectorHost


__all__ = ["See", "Sight", "describe_held", "find_sight"]

_DRAWN = ("rgb_array", "ansi")
"""Render modes in which drawing twice is drawing once: ``human`` opens a window, and what
``rgb_array_list`` returns is then missing in the trainer's own."""

Sight = dict[str, Any]
"""``op``, ``action``, ``observation``, ``reward``, ``done``, ``truncated`` and ``info``."""

See = Callable[[str, list[Any], Any], Sight | None]
"""Tells what an operation led to: its name, arguments and value; None: nothing that is seen."""


def describe_held(host: Host) -> dict[str, Any]:
    """Return what a list of sessions says about what one of them holds.

    Returns:
        ``environment``: the name of its class; ``num_envs``: how many there are, None for a single
        one; ``watchable``.
    """
    if isinstance(host, VectorHost):
        return {"environment": host.name, "num_envs": host.engine_count, "watchable": True}
    if isinstance(host, EnvironmentHost):
        return {"environment": host.name, "num_envs": None, "watchable": True}
    return {"environment": type(host).__name__, "num_envs": None, "watchable": False}


def find_sight(host: Host, index: int) -> tuple[See, Callable[[], Any] | None]:
    """Return what tells what is to be seen of a host, and what draws it, where that is harmless.

    Args:
        host: What a session holds.
        index: Which of several sub-environments.

    Raises:
        ForbiddenOperationError: Several agents play there, each of whom sees its own share only.
        InvalidOptionError: There is no such sub-environment.
    """
    if isinstance(host, EnvironmentHost):
        return see_one, _drawing(host.env.render_mode, host.env.render)
    if not isinstance(host, VectorHost):
        raise errors.ForbiddenOperationError(
            "A game of several agents cannot be watched: each sees its own share.",
            field="session",
        )
    count = host.engine_count
    if not 0 <= index < count:
        raise errors.InvalidOptionError(
            f"index={index}: there are {count} sub-environments, from 0.", field="index"
        )
    single = host.single

    def see(op: str, args: list[Any], value: Any) -> Sight | None:
        return see_member(single.observation_space, single.action_space, index, op, args, value)

    return see, _drawing(single.render_mode, lambda: host.render_member(index))


def _drawing(render_mode: str | None, draw: Callable[[], Any]) -> Callable[[], Any] | None:
    return draw if render_mode in _DRAWN else None


def see_one(op: str, args: list[Any], value: Any) -> Sight | None:
    """Return what an operation of a single environment led to; see `See`."""
    action = args[0] if args else None
    match op:
        case "reset":
            observation, info = value
            return _sight("reset", None, observation, info=info)
        case "step":
            observation, reward, terminated, truncated, info = value
            done = bool(terminated or truncated)
            return _sight("step", action, observation, reward, done, bool(truncated), info)
        case "reset_typed" | "step_typed":
            fields, reward, done, truncated, info = value
            begins = op == "reset_typed"
            kind = "reset" if begins else "step"
            return _sight(
                kind, None if begins else action, fields, reward, bool(done), bool(truncated), info
            )
        case "json_reset" | "json_step":
            said = json.loads(value)
            fields = dict(said["observation"])
            info = fields.pop("metadata", {})
            begins = op == "json_reset"
            return _sight(
                "reset" if begins else "step",
                None if begins else action,
                fields,
                said.get("reward"),
                bool(said.get("done")),
                bool(info.get("truncated", False)),
                info,
            )
    return None


def see_member(
    observation_space: gymnasium.Space[Any],
    action_space: gymnasium.Space[Any],
    index: int,
    op: str,
    args: list[Any],
    value: Any,
) -> Sight | None:
    """Return what an operation of several environments led to for one of them; see `See`.

    Args:
        observation_space: That of each.
        action_space: That of each.
        index: Which one.
        op: Name of the operation.
        args: Its arguments.
        value: What it returned.
    """
    row, action = index, None
    if op == "reset":
        mask = args[2] if len(args) > 2 else None
        if mask is not None and not mask[index]:
            return None
        observations, _ = value
        return _sight("reset", None, member_of(observation_space, observations, row), info={})
    if op == "step":
        observations, rewards, terminations, truncations, _ = value
        action = member_of(action_space, args[0], index)
    elif op == "recv":
        indices, observations, rewards, terminations, truncations, _ = value
        found = np.flatnonzero(np.asarray(indices) == index)
        if not found.size:
            return None
        row = int(found[0])
    else:
        return None
    truncated = bool(truncations[row])
    return _sight(
        "step",
        action,
        member_of(observation_space, observations, row),
        rewards[row],
        bool(terminations[row]) or truncated,
        truncated,
        {},
    )


def member_of(space: gymnasium.Space[Any], batch: Any, index: int) -> Any:
    """Return one sample of a batch, as Gymnasium batches samples of a space."""
    if isinstance(space, gymnasium.spaces.Dict) and isinstance(batch, dict):
        return {key: member_of(part, batch[key], index) for key, part in space.spaces.items()}
    if isinstance(space, gymnasium.spaces.Tuple) and isinstance(batch, (tuple, list)):
        # A batch of tuples is a tuple of batches, unless somebody sent the samples themselves.
        if len(batch) == len(space.spaces):
            pairs = zip(space.spaces, batch, strict=True)
            return tuple(member_of(part, each, index) for part, each in pairs)
        return batch[index]
    return batch[index]


def _sight(
    op: str,
    action: Any,
    observation: Any,
    reward: Any = None,
    done: bool = False,
    truncated: bool = False,
    info: Any = None,
) -> Sight:
    return {
        "op": op,
        "action": action,
        "observation": observation,
        "reward": reward,
        "done": done,
        "truncated": truncated,
        "info": info if isinstance(info, dict) else {},
    }
