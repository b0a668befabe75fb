"""Staff that stays: so many worker processes, each of which holds many sessions."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable

from openenv_gym import errors
from openenv_gym.server.workers.options import WorkerOptions
from openenv_gym.server.workers.reception import Reception
from openenv_gym.server.workers.recruit import Worker
from openenv_gym.server.workers.staff import Staff


__all__ = ["Crew", "draining_error"]

_log = logging.getLogger("openenv_gym.server")

_FIRST_PAUSE_S = 0.1
_MAX_PAUSE_S = 10.0
_SOON_S = 10.0  # who ends within so long ended at once


class Crew(Staff):
    """A fixed number of workers; one that dies is replaced.

    Args:
        options: What all workers are told.
        left: Called when a session has ended, or could not be opened.
        count: How many workers there are.
    """

    def __init__(self, options: WorkerOptions, left: Callable[[str], None], count: int) -> None:
        super().__init__(options, left)
        self._count = count
        self._turns = 0
        self._starts: list[tuple[float, int]] = []  # when, and how many failed before

    def _begin(self) -> None:
        try:
            for _ in range(self._count):
                self._launch()
        except OSError as error:
            self._problem = str(error)
            self._begun.set()

    def _is_ready(self, worker: Worker) -> None:
        if sum(each.ready for each in self._workers.values()) == self._count:
            self._begun.set()

    def _has_taken(self, worker: Worker, fd: int) -> None:
        """See `Staff`: it is the worker's business alone."""

    def _has_left(self, worker: Worker, peer: str) -> None:
        if worker.peers:
            self._left(worker.free_place(peer))

    def _ended(self, worker: Worker) -> None:
        if not self._begun.is_set():
            self._problem = (
                f"Worker {worker.number} {worker.how_it_ended()} before it served; what it wrote "
                "says why."
            )
            self._begun.set()
        if self._kill_at_s is None and self._problem is None:
            soon = time.monotonic() < worker.began_s + _SOON_S
            failures = worker.failures + 1 if soon else 0
            pause_s = min(_FIRST_PAUSE_S * 2**failures, _MAX_PAUSE_S) if soon else 0.0
            self._starts.append((time.monotonic() + pause_s, failures))
            _log.warning(
                "Worker %d (process %d) %s, and %d sessions with it; another one takes its place "
                "in %.1f s",
                worker.number,
                worker.process.pid,
                worker.how_it_ended(),
                worker.places,
                pause_s,
            )
        for peer in worker.peers:
            self._left(peer)

    def _is_busy(self) -> bool:
        return bool(self._starts) or super()._is_busy()

    def _look_after(self) -> None:
        super()._look_after()
        if self._kill_at_s is not None:
            return
        now_s = time.monotonic()
        due = [start for start in self._starts if start[0] <= now_s]
        for start in due:
            self._starts.remove(start)
            try:
                self._launch(failures=start[1])
            except OSError as error:
                _log.warning("%s", error)
                self._starts.append((now_s + _MAX_PAUSE_S, start[1]))

    def _by_load(self) -> list[Worker]:
        ready = [worker for worker in self._workers.values() if worker.ready]
        return sorted(ready, key=lambda worker: (worker.places, worker.turn))

    def _place(self, connection: Reception) -> None:
        if self._draining:
            self._refuse_all(connection, draining_error())
            return
        for worker in self._by_load():
            taken = self._offer(worker, connection)
            if taken is None:  # the client has left
                self._left(connection.peer)
                return
            if taken:
                self._turns += 1
                worker.turn = self._turns
                worker.peers.append(connection.peer)
                return
        self._later.append(lambda: self._place(connection))  # all are being replaced

    def _visit(self, sock: socket.socket) -> None:
        workers = self._by_load()
        if workers:
            self._send_visitor(workers[0], sock)
        else:
            sock.close()


def draining_error() -> errors.ServerDrainingError:
    """Return what is answered to who comes while the server stops."""
    return errors.ServerDrainingError(
        "The server is shutting down and opens no session.", hint="Connect to another server."
    )
