"""Where the observations of several servers land, so that they need not be put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from openenv_gym.vector.member import Member


__all__ = ["Landing", "landing_of"]

_STACKED = (gymnasium.spaces.Box, gymnasium.spaces.MultiBinary, gymnasium.spaces.MultiDiscrete)


class Landing:
    """A fresh batch of which each server fills its rows, straight from shared memory.

    What arrives by another way is copied into its rows. Nobody sees the batch before all of it has
    been checked.

    Args:
        space: Of a single observation. (That of the batch may be the caller's own.)
        members: The servers, with their rows.
    """

    def __init__(
        self,
        space: gymnasium.Space[Any],
        members: Sequence[Member],
    ) -> None:
        assert space.shape is not None
        num_envs = sum(member.num_envs for member in members)
        self._shape, self._dtype = (num_envs, *space.shape), space.dtype
        self._members = members
        self._batch: npt.NDArray[Any] | None = None

    def prepare(self) -> Sequence[memoryview]:
        """Return for each server the memory of its rows, for `Connection.begin`."""
        batch: npt.NDArray[Any] = np.empty(self._shape, self._dtype)
        memory = batch.reshape(-1).view(np.uint8).data
        row_bytes = batch[0].nbytes
        self._batch = batch
        return [
            memory[member.rows.start * row_bytes : member.rows.stop * row_bytes]
            for member in self._members
        ]

    def collect(self, parts: Sequence[Any]) -> npt.NDArray[Any]:
        """Return the batch, which is the caller's from now on.

        Args:
            parts: What the servers answered, in their order.
        """
        batch, self._batch = self._batch, None
        assert batch is not None
        for member, part in zip(self._members, parts, strict=True):
            rows = batch[member.rows]
            there = _address(part) == _address(rows) and part.dtype == rows.dtype
            if not there or part.shape != rows.shape:
                rows[...] = part
        return batch


def landing_of(space: gymnasium.Space[Any], members: Sequence[Member]) -> Landing | None:
    """Return where observations land; None where their batch is not one array of numbers.

    Args:
        space: Of a single observation.
        members: The servers.
    """
    if type(space) not in _STACKED:
        return None
    plain = space.dtype is not None and space.dtype.kind in "biuf" and 0 not in (space.shape or ())
    return Landing(space, members) if plain else None


def _address(array: npt.NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
