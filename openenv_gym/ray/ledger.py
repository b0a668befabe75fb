"""Which batches of rollouts are still to be played, are being played, are there, or are missing."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from openenv_gym.errors import RolloutsMissingError


__all__ = ["Ledger", "Missing", "Work", "missing_error"]


@dataclass(frozen=True)
class Work:
    """Rollouts that a worker plays at a time: it depends on these numbers alone what they give.

    Attributes:
        batch: Its number.
        first: Number of the first rollout.
        seeds: Of the rollouts.
    """

    batch: int
    first: int
    seeds: tuple[int, ...]

    @property
    def last(self) -> int:
        """Number of the last rollout."""
        return self.first + len(self.seeds) - 1


@dataclass(frozen=True)
class Missing:
    """Rollouts that the result lacks.

    Attributes:
        rollouts: First and last of their numbers.
        seeds: First and last of their seeds.
        worker: The last worker that had them; None where none ever had.
        reasons: What happened each time that they were tried.
    """

    rollouts: tuple[int, int]
    seeds: tuple[int, int]
    worker: int | None
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        (first, last), (low, high) = self.rollouts, self.seeds
        which = f"rollouts {first} to {last} (seeds {low} to {high})"
        return f"{which}: {'; '.join(self.reasons) or 'nobody came to play them'}"


class Ledger:
    """Gives each batch out until it is there, or was tried as often as it may be.

    A batch is accepted once. What a worker sends after it was given up for lost is refused.

    Args:
        works: The batches, numbered from 0.
        attempts: How often each may be tried.
    """

    def __init__(self, works: list[Work], *, attempts: int) -> None:
        self._works = works
        self._attempts = attempts
        self._free = [work.batch for work in works]  # a heap: the first one first
        self._holders: dict[int, int] = {}
        self._there: set[int] = set()
        self._reasons: dict[int, list[str]] = {}
        self._last_holder: dict[int, int] = {}
        self._given_up: set[int] = set()

    @property
    def over(self) -> bool:
        """Every batch is there or missing."""
        return len(self._there) + len(self._given_up) == len(self._works)

    @property
    def waiting(self) -> int:
        """How many batches wait for a worker."""
        return len(self._free)

    @property
    def there(self) -> int:
        """How many batches are there."""
        return len(self._there)

    @property
    def given_up(self) -> int:
        """How many batches will not come."""
        return len(self._given_up)

    @property
    def missing(self) -> list[Missing]:
        """What the result lacks: all that is not there, once nothing more is to come."""
        return [
            Missing(
                (work.first, work.last),
                (work.seeds[0], work.seeds[-1]),
                self._last_holder.get(work.batch),
                tuple(self._reasons.get(work.batch, ())),
            )
            for work in self._works
            if work.batch not in self._there
        ]

    def take(self, worker: int) -> Work | None:
        """Give a batch to a worker; None where none waits."""
        if not self._free:
            return None
        batch = heapq.heappop(self._free)
        self._holders[batch] = self._last_holder[batch] = worker
        return self._works[batch]

    def accept(self, batch: int, worker: int) -> bool:
        """Note that a batch is there; False where this worker does not hold it any more."""
        if self._holders.get(batch) != worker:
            return False
        del self._holders[batch]
        self._there.add(batch)
        return True

    def lost(self, batch: int, worker: int, why: str) -> None:
        """Have a batch played again that went with its worker or server, or after it was there."""
        if batch in self._there:
            self._there.remove(batch)
        elif self._holders.get(batch) == worker:
            del self._holders[batch]
        else:
            return
        self._reasons.setdefault(batch, []).append(why)
        if len(self._reasons[batch]) < self._attempts:
            heapq.heappush(self._free, batch)
        else:
            self._given_up.add(batch)

    def give_back(self, batch: int, worker: int) -> None:
        """Have a batch played by whoever is next, with which its worker had not begun."""
        if self._holders.get(batch) == worker:
            del self._holders[batch]
            heapq.heappush(self._free, batch)

    def failed(self, batch: int, worker: int, why: str) -> None:
        """Give a batch up whose environment or policy raised: it would do so again."""
        if self._holders.get(batch) == worker:
            del self._holders[batch]
            self._reasons.setdefault(batch, []).append(why)
            self._given_up.add(batch)


def missing_error(missing: Sequence[Missing], hopeless: str | None = None) -> RolloutsMissingError:
    """Return the error that names what is missing.

    Args:
        missing: What that is.
        hopeless: Why no worker has environments, where that is so.
    """
    count = sum(last - first + 1 for (first, last) in (each.rollouts for each in missing))
    lines = "\n".join(f"  {each}" for each in missing[:10])
    more = f"\n  and {len(missing) - 10} more" if len(missing) > 10 else ""
    nobody = f" No worker has environments: {hopeless}." if hopeless else ""
    return RolloutsMissingError(
        f"{count} rollouts are missing.{nobody}\n{lines}{more}",
        data={
            "missing": [
                {
                    "rollouts": list(each.rollouts),
                    "seeds": list(each.seeds),
                    "worker": each.worker,
                    "reasons": list(each.reasons),
                }
                for each in missing
            ]
        },
    )
