"""Staff for one session each: a process that ends with it, and nothing of it stays."""

from __future__ import annotations

import contextlib
import logging
import queue
import socket
import subprocess
import time
from collections.abc import Callable

from openenv_gym import errors
from openenv_gym.server.figures import Figures
from openenv_gym.server.workers.crew import draining_error
from openenv_gym.server.workers.hangups import HangUps
from openenv_gym.server.workers.isolation import Slots
from openenv_gym.server.workers.options import WorkerOptions
from openenv_gym.server.workers.reception import Reception
from openenv_gym.server.workers.recruit import Worker
from openenv_gym.server.workers.staff import Staff


__all__ = ["Attendants"]

_log = logging.getLogger("openenv_gym.server")

_PAUSE_S = 1.0  # after a process that ended before it had a session
_SLACK_S = 5.0  # beyond the grace period, in which a session ends by itself
_ANSWER_S = 2.0  # so long our own thread may be busy with something else
_CLEAN_S = 30.0  # so long the removal of what a session left may take


class Attendants(Staff):
    """Starts a process for each session; the next one is kept ready.

    Args:
        options: What all processes are told.
        left: Called when a session has ended and nothing of it is left, or could not be opened.
        slots: Where they run; one more than there are sessions, for the one that is ready.
    """

    def __init__(self, options: WorkerOptions, left: Callable[[str], None], slots: Slots) -> None:
        super().__init__(options, left)
        self._slots = slots
        self._spare: Worker | None = None
        self._spare_at_s = 0.0
        self._cleaners: list[tuple[subprocess.Popen[bytes], Worker, float]] = []
        self._killers: list[subprocess.Popen[bytes]] = []
        self._grace_s = float(options.limits["resume_grace_s"]) + _SLACK_S
        self._idle_s = float(options.limits["idle_timeout_s"]) + _SLACK_S
        self._lines = HangUps(self._selector)
        self._gone = Figures()
        self._known = Figures()

    def take(self) -> Figures:
        """Return the sum of what all processes have said of themselves, past and present."""
        made: queue.SimpleQueue[Figures] = queue.SimpleQueue()

        def add_up() -> None:
            total = self._gone.copy()
            for worker in self._workers.values():
                _merge(total, worker)
            made.put(total)

        self._do(add_up)
        # Where our thread has no time: what is counted must never become less.
        with contextlib.suppress(queue.Empty):
            self._known = made.get(timeout=_ANSWER_S)
        return self._known.copy()

    def _forget(self, worker: Worker) -> None:
        _merge(self._gone, worker)
        super()._forget(worker)

    def _begin(self) -> None:
        try:
            self._spare = self._start()
        except OSError as error:
            self._problem = str(error)
            self._begun.set()

    def _start(self) -> Worker | None:
        """Start a process; None where there is no slot for it.

        Raises:
            OSError: The system refuses.
        """
        slot = self._slots.take()
        if slot is None:
            return None
        try:
            return self._launch(slot)
        except OSError:
            slot.discard()
            self._slots.give_back(slot, clean=True)
            raise

    def _is_ready(self, worker: Worker) -> None:
        # From now on others may speak for it, and it has nothing to say that could be believed.
        self._ignore(worker)
        self._begun.set()

    def _has_left(self, worker: Worker, peer: str) -> None:
        """Believe nothing: its session has ended when it has."""

    def _ended(self, worker: Worker) -> None:
        assert worker.slot is not None
        if not self._begun.is_set():
            self._problem = (
                f"The first process for a session {worker.how_it_ended()} before it served; what "
                "it wrote says why."
            )
            self._begun.set()
        if worker is self._spare:
            self._spare = None
            self._spare_at_s = time.monotonic() + _PAUSE_S
        if worker.process.returncode != 0 and self._kill_at_s is None:
            _log.warning(
                "The process of the sessions %d-... %s", worker.number, worker.how_it_ended()
            )
        self._lines.forget(worker.number)
        try:
            cleaner = worker.slot.clean()
        except OSError as error:
            _log.error("Cannot clean up after a session: %s", error)
            self._bury(worker, clean=False)
        else:
            self._cleaners.append((cleaner, worker, time.monotonic() + _CLEAN_S))

    def _bury(self, worker: Worker, *, clean: bool) -> None:
        assert worker.slot is not None
        self._slots.give_back(worker.slot, clean=clean)
        for peer in worker.peers:
            self._left(peer)

    def _kill(self, worker: Worker) -> None:
        if not worker.kill_group() and worker.slot is not None:
            self._killers.append(worker.slot.clean())  # which may

    def _is_busy(self) -> bool:
        wanted = self._spare is None and len(self._slots) > 0 and not self._draining
        busy = bool(self._cleaners or self._killers or self._lines.silent)
        return busy or wanted or super()._is_busy()

    def _is_over(self) -> bool:
        return super()._is_over() and not self._cleaners and not self._killers

    def _look_after(self) -> None:
        super()._look_after()
        self._killers = [each for each in self._killers if each.poll() is None]
        for number in self._lines.overdue(self._patience):
            _log.warning("The process of the sessions %d-... outlived its session: killed", number)
            self._kill(self._workers[number])
        for entry in list(self._cleaners):
            cleaner, worker, end_s = entry
            if cleaner.poll() is None:
                if time.monotonic() > end_s:
                    cleaner.kill()
                continue
            self._cleaners.remove(entry)
            self._bury(worker, clean=cleaner.returncode == 0)
        due = time.monotonic() >= self._spare_at_s
        if self._spare is None and due and not self._draining and self._problem is None:
            try:
                self._spare = self._start()
            except OSError as error:
                _log.warning("%s", error)
                self._spare_at_s = time.monotonic() + _PAUSE_S

    def _patience(self, number: int) -> float:
        """Return how long a process may be without a connection, in seconds."""
        return self._idle_s if self._workers[number].keeps else self._grace_s

    def _has_taken(self, worker: Worker, fd: int) -> None:
        self._lines.watch(worker.number, fd)

    def _next(self) -> Worker | None:
        """Return a process for a session: the one that is ready, or another one.

        Raises:
            OSError: The system refuses.
        """
        worker = self._spare
        return worker if worker is not None else self._start()

    def _place(self, connection: Reception) -> None:
        if self._draining:
            self._refuse_all(connection, draining_error())
            return
        try:
            worker = self._next()
        except OSError as error:
            self._refuse_all(connection, errors.ServerStartError(str(error)))
            return
        if worker is None:  # a slot is being cleaned
            self._later.append(lambda: self._place(connection))
            return
        taken = self._offer(worker, connection)
        # Nobody else gets what was offered and not taken, whatever the reason was.
        self._spare = worker if not taken else None
        if taken:
            worker.peers = [connection.peer]
        elif taken is None:  # the client has left
            self._left(connection.peer)
        else:
            self._later.append(lambda: self._place(connection))

    def _visit(self, sock: socket.socket) -> None:
        worker = None
        try:
            worker = self._next()
        except OSError as error:
            _log.warning("%s", error)
        if worker is None:
            sock.close()
            return
        self._send_visitor(worker, sock)
        self._spare = None


def _merge(total: Figures, worker: Worker) -> None:
    if worker.ledger is not None:
        total.merge(worker.ledger.read())
