"""What an environment that is hosted takes: as much as it would take locally."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from openenv_gym.errors import InvalidActionError
from openenv_gym.spaces.samples import check_action, check_keys


__all__ = ["check_hosted_action"]

_NUMBERS = {"f": "fiub", "i": "iub", "u": "iub", "b": "b"}


def check_hosted_action(space: gymnasium.Space[Any], action: Any, name: str = "action") -> None:
    """Refuse an action that no environment with this action space could make sense of.

    Environments commonly clip what exceeds a `Box` and convert its dtype, so an action that works
    locally must not be refused for that: in a `Box`, kind and shape are checked, not bounds and
    precision. Every other space is checked in full.

    Args:
        space: The action space.
        action: Anything.
        name: What the error calls the action.

    Raises:
        InvalidActionError: The action is of the wrong type or shape, or not in the space.
    """
    if isinstance(space, spaces.Box):
        _check_box(space, action, name)
    elif isinstance(space, spaces.Dict):
        check_keys(space, action, name)
        for key, part in space.spaces.items():
            check_hosted_action(part, action[key], f"{name}[{key!r}]")
    elif isinstance(space, spaces.Tuple) and isinstance(action, tuple):
        if len(action) != len(space.spaces):
            raise InvalidActionError(
                f"{name} has {len(action)} items, expected {len(space.spaces)}.", field=name
            )
        for index, (part, item) in enumerate(zip(space.spaces, action, strict=True)):
            check_hosted_action(part, item, f"{name}[{index}]")
    else:
        check_action(space, action, name)


def _check_box(space: spaces.Box, action: Any, name: str) -> None:
    try:
        array = np.asarray(action)
    except (ValueError, TypeError):  # ragged lists
        array = np.asarray(None, dtype=object)
    if array.dtype.kind not in _NUMBERS.get(space.dtype.kind, ""):
        raise InvalidActionError(
            f"{name} is a {type(action).__name__} of dtype {array.dtype}, expected numbers of "
            f"shape {space.shape} that fit {space.dtype}.",
            field=name,
        )
    if array.shape != space.shape:
        raise InvalidActionError(
            f"{name} has shape {array.shape}, expected {space.shape}.", field=name
        )
