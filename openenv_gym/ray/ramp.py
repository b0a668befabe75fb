"""How many workers are at work: slowly up, quickly down."""

from __future__ import annotations


__all__ = ["RampUp"]

_BASE_S = 0.5  # so long nobody is added after the first refusal; twice as long after each other
_MAX_S = 30.0
_TOLERANCE = 2.0
"""Steps may take so many times as long as they took at best before that counts as crowding."""


class RampUp:
    """Bounds how many workers are started and at work.

    While all goes well, each worker that has started, and each batch that is there, lets another
    one in, so that their number doubles (TCP's slow start, RFC 5681). After the first trouble it
    grows by one for as many batches as there are workers. Refusals and losses halve it, and nobody
    is added for a while. Where steps take longer and longer because the machines are full, the
    number shrinks in that proportion: the gradient of Netflix's concurrency-limits, with its
    tolerance of 2.

    Args:
        most: Never more workers than that.
        start: How many to begin with.
    """

    def __init__(self, most: int, *, start: int = 1) -> None:
        self._most = most
        self._limit = float(min(start, most))
        self._careful = False
        self._pause_s = _BASE_S
        self._paused_until_s = 0.0
        self._best_s: float | None = None
        self._since_cut = 0

    @property
    def limit(self) -> int:
        """How many workers there may be now."""
        return int(self._limit)

    def paused_until(self) -> float:
        """Return when another worker may be started again."""
        return self._paused_until_s

    def started(self) -> None:
        """A worker has its environments."""
        self._grow()

    def finished(self, seconds: float, steps: int) -> None:
        """A batch is there.

        Args:
            seconds: How long it took.
            steps: Of a sub-environment, those included that were played for nothing.
        """
        self._pause_s = _BASE_S
        self._since_cut += 1
        step_s = seconds / max(steps, 1)
        self._best_s = step_s if self._best_s is None else min(self._best_s, step_s)
        crowding = step_s / (self._best_s * _TOLERANCE) if self._best_s else 1.0
        if crowding <= 1.0:
            self._grow()
        elif self._since_cut >= self.limit:  # those that are under way are of before the last cut
            self._cut(max(1.0 / crowding, 0.5))

    def refused(self, now_s: float) -> None:
        """A server was full, could not be started, or is gone, or a worker is."""
        self._cut(0.5)
        self._paused_until_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, _MAX_S)

    def _grow(self) -> None:
        self._limit = min(self._limit + (1 / self._limit if self._careful else 1), self._most)

    def _cut(self, factor: float) -> None:
        self._careful = True
        self._since_cut = 0
        self._limit = max(self._limit * factor, 1.0)
