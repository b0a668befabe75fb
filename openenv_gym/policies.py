"""Chance as a policy: actions drawn from a space, legal ones only where infos say which are."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np


__all__ = ["Chance"]


class Chance:
    """Draws actions for several sub-environments, each with a generator of its own.

    So what is drawn for one does not depend on how many others there are.

    Args:
        space: Action space of one sub-environment.
        num_envs: How many there are.
    """

    def __init__(self, space: gymnasium.Space[Any], num_envs: int) -> None:
        self._spaces = [copy.deepcopy(space) for _ in range(num_envs)]
        self._takes_mask = isinstance(space, gymnasium.spaces.Discrete)

    def seed(self, number: int, seed: int | None) -> None:
        """Seed the generator of one sub-environment; None: with what the system gives."""
        self._spaces[number].seed(seed)

    def draw(self, number: int, mask: Any = None) -> Any:
        """Return an action for one sub-environment.

        Args:
            number: Which one.
            mask: The ``action_mask`` of its info, of shape (n,): true where an action is legal;
                None where there is none. It counts in a `Discrete` space alone.
        """
        if mask is None or not self._takes_mask:
            return self._spaces[number].sample()
        mask = np.asarray(mask, dtype=np.int8)
        # Without a legal action (the episode is over) anything will do.
        return self._spaces[number].sample(mask=mask if mask.any() else None)
