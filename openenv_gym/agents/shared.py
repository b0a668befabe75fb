"""Pools for trainers that make what they need from plain data, once for each tool or episode."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from typing import Any

from openenv_gym import errors
from openenv_gym.agents.pool import AgentPool


__all__ = ["shared_pool"]

_lock = threading.Lock()
_pools: dict[tuple[int, str], AgentPool] = {}


def shared_pool(config: Mapping[str, Any]) -> AgentPool:
    """Return the pool of this process that a configuration describes; equal ones share it.

    Args:
        config: ``env_id`` and further arguments of `AgentPool`, as plain data.

    Raises:
        InvalidOptionError: There is no ``env_id``, or an argument has a value that is not taken.
        UnknownEnvironmentError: There is no such id.
    """
    arguments = dict(config)
    env_id = arguments.pop("env_id", None)
    if not isinstance(env_id, str):
        raise errors.InvalidOptionError(
            f"env_id={env_id!r:.80}: expected an id such as 'openenv/TextBlackjack-v0'.",
            field="env_id",
        )
    try:
        key = os.getpid(), json.dumps([env_id, arguments], sort_keys=True)
    except (TypeError, ValueError) as error:
        raise errors.InvalidOptionError(
            f"The configuration of {env_id} is no plain data: {error}."
        ) from error
    with _lock:
        if key not in _pools:
            _pools[key] = AgentPool(env_id, **arguments)
        return _pools[key]
