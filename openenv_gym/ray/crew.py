"""Who works on what: decisions about workers and servers, without doing anything about them.

The driver (`collector`) tells what has happened and does what `Crew.orders` says. Times are given,
in seconds of any clock, so that all of this can be tried out without Ray.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from openenv_gym.ray.ledger import Ledger, Work
from openenv_gym.ray.placement import Placement
from openenv_gym.ray.ramp import RampUp


__all__ = ["Crew", "End", "Limits", "Open", "Order", "Play"]

_DEPTH = 2  # a worker has the next batch already when it is done with one
_TRIES = 5  # so often in a row nobody may come to work before that is how it stays


@dataclass(frozen=True)
class Open:
    """Have a worker make its environments; start it where it is not there yet.

    Attributes:
        worker: Its number; no other one ever has it.
        server: Number of the server where they are; None: it starts one.
    """

    worker: int
    server: int | None


@dataclass(frozen=True)
class Play:
    """Have a worker play a batch, after what it plays now."""

    worker: int
    work: Work


@dataclass(frozen=True)
class End:
    """End a worker, whatever it does."""

    worker: int


Order = Open | Play | End


@dataclass(frozen=True)
class Limits:
    """How long things may take, in seconds.

    Attributes:
        start_s: A worker, until it has its environments.
        batch_s: A batch.
    """

    start_s: float = 120.0
    batch_s: float = 600.0


class _State(Enum):
    CLOSED = "closed"
    OPENING = "opening"
    OPEN = "open"


@dataclass
class _Worker:
    state: _State = _State.CLOSED
    since_s: float = 0.0
    server: int | None = None
    works: deque[Work] = field(default_factory=deque)
    outdated: int = 0  # batches before those that are of an earlier collection


class Crew:
    """Decides who is started, what each plays, and what becomes of it when something is lost.

    Args:
        num_workers: How many workers there may be.
        num_servers: How many servers there are to choose from; 0: each worker starts its own.
        ahead: How many batches may be under way, or wait to be taken by the caller.
        limits: How long things may take.
    """

    def __init__(
        self, *, num_workers: int, num_servers: int = 0, ahead: int, limits: Limits | None = None
    ) -> None:
        self._num_workers = num_workers
        self._ahead = ahead
        self._limits = limits or Limits()
        self._ramp = RampUp(num_workers)
        self._placement = Placement(num_servers) if num_servers else None
        self._tries = max(_TRIES, 2 * num_servers)
        self._workers: dict[int, _Worker] = {}
        self._next_worker = 0
        self._in_vain = 0.0
        self._last_trouble = ""
        self._waiting = 0
        self._ledger = Ledger([], attempts=1)
        self.losses = 0  # of workers that had environments, of servers, and of what was there

    # -- what there is ------------------------------------------------------------------------

    @property
    def at_work(self) -> int:
        """How many workers play."""
        return sum(bool(worker.works) for worker in self._workers.values())

    @property
    def hopeless(self) -> str | None:
        """Why nobody will come to work; None while somebody may."""
        if any(worker.state is _State.OPEN for worker in self._workers.values()):
            return None
        return self._last_trouble if self._in_vain >= self._tries else None

    def begin(self, ledger: Ledger) -> None:
        """Begin another collection; what is still played for an earlier one is dropped."""
        for worker in self._workers.values():
            worker.outdated += len(worker.works)
            worker.works.clear()
        self._ledger = ledger
        self._waiting = 0
        self._in_vain = 0.0

    # -- what to do ---------------------------------------------------------------------------

    def orders(self, now_s: float) -> list[Order]:
        """Return what is to be done now; it counts as done."""
        orders: list[Order] = [*self._overdue(now_s)]
        for depth in range(_DEPTH):  # nobody gets a second batch before all have one
            for number, worker in self._workers.items():
                busy = len(worker.works) + worker.outdated
                if worker.state is not _State.OPEN or busy != depth or not self._has_room():
                    continue
                if not worker.works and self._active() >= self._ramp.limit:
                    continue
                work = self._ledger.take(number)
                if work is None:
                    break
                if not busy:
                    worker.since_s = now_s
                worker.works.append(work)
                orders.append(Play(number, work))
        orders += self._openings(now_s)
        return orders

    def _openings(self, now_s: float) -> list[Order]:
        orders: list[Order] = []
        while (
            self._ledger.waiting > self._count(_State.OPENING)
            and self._has_room()
            and self._active() < self._ramp.limit
            and now_s >= self._ramp.paused_until()
        ):
            closed = [n for n, w in self._workers.items() if w.state is _State.CLOSED]
            if not closed and len(self._workers) >= self._num_workers:
                break
            server = None
            if self._placement is not None:
                server = self._placement.take(now_s)
                if server is None:
                    break
            if closed:
                number = closed[0]
            else:
                number = self._next_worker
                self._next_worker += 1
                self._workers[number] = _Worker()
            worker = self._workers[number]
            worker.state, worker.since_s, worker.server = _State.OPENING, now_s, server
            orders.append(Open(number, server))
        return orders

    def _overdue(self, now_s: float) -> list[Order]:
        orders: list[Order] = []
        for number, worker in list(self._workers.items()):
            waited_s = now_s - worker.since_s
            if worker.state is _State.OPENING and waited_s > self._limits.start_s:
                self._in_vain += self._tries / 2
                why = (
                    f"it had no environments after {self._limits.start_s:g} s (is there a node "
                    "with what worker_options ask for?)"
                )
            elif (worker.works or worker.outdated) and waited_s > self._limits.batch_s:
                why = f"its batch took more than {self._limits.batch_s:g} s"
            else:
                continue
            self.worker_lost(number, why, now_s)
            orders.append(End(number))
        return orders

    def _active(self) -> int:
        return sum(
            worker.state is _State.OPENING or bool(worker.works)
            for worker in self._workers.values()
        )

    def _count(self, state: _State) -> int:
        return sum(worker.state is state for worker in self._workers.values())

    def _has_room(self) -> bool:
        under_way = sum(len(worker.works) for worker in self._workers.values())
        return under_way + self._waiting < self._ahead

    # -- what has happened --------------------------------------------------------------------

    def opened(self, number: int) -> None:
        """A worker has its environments."""
        worker = self._workers.get(number)
        if worker is None or worker.state is not _State.OPENING:
            return
        worker.state = _State.OPEN
        self._in_vain = 0.0
        self._ramp.started()
        if worker.server is not None and self._placement is not None:
            self._placement.good(worker.server)

    def refused(self, number: int, why: str, now_s: float) -> None:
        """A worker could not make its environments, and may try again."""
        if (worker := self._workers.get(number)) is not None:
            self._in_vain += 1
            self._trouble(worker, f"worker {number}: {why}", now_s)

    def closed(self, number: int) -> None:
        """A worker cannot make its environments, nor could another: it may be asked again later."""
        if (worker := self._workers.get(number)) is not None:
            worker.state = _State.CLOSED
            if worker.server is not None and self._placement is not None:
                self._placement.leave(worker.server)
            worker.server = None

    def server_lost(self, number: int, why: str, now_s: float) -> None:
        """The environments of a worker are gone, and it is there."""
        if (worker := self._workers.get(number)) is not None:
            self.losses += 1
            self._give_up(number, worker, f"worker {number} lost its server: {why}")
            self._trouble(worker, why, now_s)

    def worker_lost(self, number: int, why: str, now_s: float) -> None:
        """A worker is gone; another one takes its place."""
        worker = self._workers.pop(number, None)
        if worker is not None:
            self.losses += worker.state is not _State.OPENING
            self._in_vain += worker.state is _State.OPENING
            self._give_up(number, worker, f"worker {number} is lost: {why}")
            # Its server has done nothing wrong, as far as one can see from here.
            if worker.server is not None and self._placement is not None:
                self._placement.leave(worker.server)
            self._last_trouble = f"worker {number}: {why}"
            self._ramp.refused(now_s)

    def finished(self, number: int, seconds: float, steps: int, now_s: float) -> Work | None:
        """A worker is done with its batch; return what that was, None where nobody wants it."""
        worker = self._workers.get(number)
        if worker is None:
            return None
        worker.since_s = now_s
        self._ramp.finished(seconds, steps)
        if worker.outdated:
            worker.outdated -= 1
            return None
        work = worker.works.popleft()
        if not self._ledger.accept(work.batch, number):
            return None
        self._waiting += 1
        return work

    def failed(self, number: int, why: str, now_s: float) -> None:
        """The environment or the policy raised while a worker played its batch."""
        worker = self._workers.get(number)
        if worker is None:
            return
        worker.since_s = now_s
        if worker.outdated:
            worker.outdated -= 1
            return
        work = worker.works.popleft()
        self._ledger.failed(work.batch, number, f"worker {number}: {why}")

    def taken(self) -> None:
        """The caller has taken a batch."""
        self._waiting -= 1

    def data_lost(self, work: Work, number: int, why: str) -> None:
        """A batch was there and is gone before the caller has taken it."""
        self._waiting -= 1
        self.losses += 1
        self._ledger.lost(work.batch, number, f"what worker {number} had collected is lost: {why}")

    def _give_up(self, number: int, worker: _Worker, why: str) -> None:
        if worker.works:
            if worker.outdated:
                self._ledger.give_back(worker.works[0].batch, number)
            else:
                self._ledger.lost(worker.works[0].batch, number, why)
        for work in list(worker.works)[1:]:
            self._ledger.give_back(work.batch, number)
        worker.works.clear()
        worker.outdated = 0

    def _trouble(self, worker: _Worker, why: str, now_s: float) -> None:
        worker.state = _State.CLOSED
        if worker.server is not None and self._placement is not None:
            self._placement.leave(worker.server)
            self._placement.strike(worker.server, now_s)
        worker.server = None
        self._last_trouble = why
        self._ramp.refused(now_s)
