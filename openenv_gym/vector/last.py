"""The last observations of all sub-environments."""

from __future__ import annotations

from typing import Any

from openenv_gym.vector.batches import Batches, Rows
from openenv_gym.vector.fleet import Fleet


__all__ = ["LastObservations"]


class LastObservations:
    """What was last received from each member.

    Keeping what arrived costs nothing. Where the caller got the very memory, it may have changed
    since, as wrappers do; but then there is one server, and its end is the only use.

    Args:
        fleet: The members.
        batches: Knows batches of observations.
        shared: The caller gets what arrives without a copy.
    """

    def __init__(self, fleet: Fleet, batches: Batches, *, shared: bool) -> None:
        self._fleet = fleet
        self._batches = batches
        self._shared = shared
        self._parts: list[Any] = [None] * len(fleet.members)
        self._ours = [False] * len(fleet.members)

    def note(self, index: int, part: Any) -> None:
        """Take what was received from a member."""
        self._parts[index] = part
        self._ours[index] = not self._shared

    def update(self, index: int, rows: Rows, part: Any) -> None:
        """Take what was received for some of a member's sub-environments."""
        count = self._fleet.members[index].num_envs
        known = self._parts[index]
        if not self._ours[index]:
            known = None if known is None else self._batches.join([(slice(None), known)], count)
            self._ours[index] = True
        parts = [(rows, part)]
        if known is not None and not self._batches.plain:
            parts.insert(0, (slice(None), known))
        self._parts[index] = self._batches.join(parts, count, known)

    def take(self, index: int, rows: Rows) -> Any:
        """Return the last observations of a member's sub-environments, in memory of their own."""
        count = self._fleet.members[index].num_envs
        known = self._parts[index]
        if known is None:
            known = self._batches.join([], count)
        taken = self._batches.take(known, rows)
        size = len(range(*rows.indices(count))) if isinstance(rows, slice) else len(rows)
        return self._batches.join([(slice(None), taken)], size)
