"""The workers that a supervisor has, and the one thread that starts, feeds and buries them."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import selectors
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from openenv_gym import errors
from openenv_gym.protocol.server_session import lost_session
from openenv_gym.server.workers.channel import Kind, join_connection, receive, send
from openenv_gym.server.workers.isolation import Slot
from openenv_gym.server.workers.options import WorkerOptions
from openenv_gym.server.workers.reception import Reception
from openenv_gym.server.workers.recruit import Worker, start_worker


__all__ = ["Staff"]

_log = logging.getLogger("openenv_gym.server")

_TICK_S = 0.2
_IDLE_TICK_S = 1.0
_END_S = 5.0  # so long a worker may take to end by itself
_MAX_FACTS = 64 << 10
_LETTERS_AT_ONCE = 256


class Staff(ABC):
    """Processes that serve, and their thread.

    The thread lives as long as there are any, for the system kills them when the thread that
    started them ends. It alone touches them: others leave it a job.

    Args:
        options: What all workers are told.
        left: Called when a session of a peer has ended, or could not be opened.
    """

    def __init__(self, options: WorkerOptions, left: Callable[[str], None]) -> None:
        self._options = options
        self._left = left
        self._workers: dict[int, Worker] = {}
        self._numbers = 0
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._later: list[Callable[[], None]] = []
        self._selector = selectors.DefaultSelector()
        self._wake_fd, self._wake_end = os.pipe()
        os.set_blocking(self._wake_fd, False)
        os.set_blocking(self._wake_end, False)
        self._selector.register(self._wake_fd, selectors.EVENT_READ, None)
        self._begun = threading.Event()
        self._problem: str | None = None
        self._draining = False
        self._kill_at_s: float | None = None
        self._thread = threading.Thread(target=self._run, name="openenv-staff", daemon=True)
        self.facts: dict[str, Any] = {}

    # -- for other threads --------------------------------------------------------------------

    def start(self, timeout_s: float) -> None:
        """Start the first workers, and wait until they serve.

        Raises:
            ServerStartError: They do not.
        """
        self._do(self._begin)
        self._thread.start()
        if not self._begun.wait(timeout_s):
            self._problem = f"The first workers did not serve within {timeout_s:g} s."
        if self._problem is not None:
            self.stop()
            raise errors.ServerStartError(self._problem)

    def place(self, connection: Reception) -> None:
        """Give a worker a connection that wants a session; a place is taken for it."""
        self._do(lambda: self._place(connection))

    def resume(self, connection: Reception, name: str) -> None:
        """Give a connection to the worker that holds its session."""
        self._do(lambda: self._resume(connection, name))

    def visit(self, sock: socket.socket) -> None:
        """Give a worker a connection that has said nothing yet."""
        self._do(lambda: self._visit(sock))

    def visit_each(
        self, timeout_s: float, *, with_sessions: bool = False
    ) -> dict[int, socket.socket]:
        """Return a connection to each worker that serves, by its number.

        Args:
            timeout_s: How long to wait for them.
            with_sessions: To each that has a session instead.
        """
        made: queue.SimpleQueue[dict[int, socket.socket]] = queue.SimpleQueue()

        def visit() -> None:
            lines = {}
            for worker in self._workers.values():
                if worker.places if with_sessions else worker.ready:
                    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
                    lines[worker.number] = ours
                    self._send_visitor(worker, theirs)
            made.put(lines)

        self._do(visit)
        try:
            return made.get(timeout=timeout_s)
        except queue.Empty:
            return {}

    def drain(self, limit_s: float) -> None:
        """Have clients told that the server stops."""

        def drain() -> None:
            self._draining = True
            for worker in self._workers.values():
                send(worker.channel, Kind.DRAIN, str(limit_s).encode())

        self._do(drain)

    def stop(self, timeout_s: float = _END_S) -> None:
        """End all workers: those that do not end by themselves are killed."""

        def stop() -> None:
            self._draining = True
            self._kill_at_s = time.monotonic() + timeout_s
            for worker in self._workers.values():
                with contextlib.suppress(OSError):  # it reads to the end, and ends
                    worker.channel.shutdown(socket.SHUT_WR)

        self._do(stop)
        self._thread.join(timeout_s + 2 * _END_S)

    def _do(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_end, b"x")

    # -- in the thread ------------------------------------------------------------------------

    def _run(self) -> None:
        while self._kill_at_s is None or not self._is_over():
            tick_s = _TICK_S if self._is_busy() else _IDLE_TICK_S
            for key, _ in self._selector.select(tick_s):
                if key.fd == self._wake_fd:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake_fd, 4096)
                elif isinstance(key.data, Worker):
                    self._hear(key.data)
            later, self._later = self._later, []
            for job in later:
                self._attempt(job)
            while not self._jobs.empty():
                self._attempt(self._jobs.get())
            self._attempt(self._look_after)

    def _attempt(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception:
            _log.exception("Unexpected failure in the supervisor")

    def _is_busy(self) -> bool:
        """There is something that no event tells."""
        hidden = any(worker.pidfd < 0 for worker in self._workers.values())
        return bool(self._later) or hidden or self._kill_at_s is not None

    def _is_over(self) -> bool:
        return not self._workers

    def _look_after(self) -> None:
        """Bury those that have ended; kill those that should have."""
        for worker in list(self._workers.values()):
            if worker.has_ended():
                self._hear(worker)
                worker.kill_group()
                self._forget(worker)
                self._ended(worker)
        if self._kill_at_s is not None and time.monotonic() > self._kill_at_s:
            self._kill_at_s += _END_S
            for worker in self._workers.values():
                self._kill(worker)

    def _kill(self, worker: Worker) -> None:
        worker.kill_group()

    def _launch(self, slot: Slot | None = None, failures: int = 0) -> Worker:
        """Start a worker.

        Raises:
            OSError: The system refuses.
        """
        self._numbers += 1
        worker = start_worker(self._options, self._numbers, slot, failures)
        self._workers[worker.number] = worker
        self._selector.register(worker.channel, selectors.EVENT_READ, worker)
        if worker.pidfd >= 0:
            self._selector.register(worker.pidfd, selectors.EVENT_READ, None)
        return worker

    def _forget(self, worker: Worker) -> None:
        del self._workers[worker.number]
        self._ignore(worker)
        if worker.pidfd >= 0:
            self._selector.unregister(worker.pidfd)
        worker.how_it_ended()  # which frees its number
        worker.close()

    def _ignore(self, worker: Worker) -> None:
        """Listen to a worker no longer."""
        with contextlib.suppress(KeyError):
            self._selector.unregister(worker.channel)

    def _hear(self, worker: Worker) -> None:
        """Take what a worker has to say."""
        for _ in range(_LETTERS_AT_ONCE):
            try:
                letter = receive(worker.channel, trusted=False)
            except BlockingIOError:
                return
            if letter is None:
                self._ignore(worker)  # its end of the channel is closed: it ends, or should
                return
            if letter.kind is Kind.READY and not worker.ready:
                worker.ready = True
                if not self.facts:
                    self.facts = _read_facts(letter.data)
                self._is_ready(worker)
            elif letter.kind is Kind.LEFT:
                self._has_left(worker, letter.data.decode(errors="replace"))

    def _resume(self, connection: Reception, name: str) -> None:
        number = name.partition("-")[0]
        worker = None
        if number.isascii() and number.isdecimal() and len(number) < 16:
            worker = self._workers.get(int(number))
        if worker is None:
            connection.refuse(lost_session(name))
        elif self._offer(worker, connection) is False:  # it takes nothing at the moment
            self._later.append(lambda: self._resume(connection, name))

    def _offer(self, worker: Worker, connection: Reception) -> bool | None:
        """Hand a connection over; see `Reception.hand_over`."""

        def deliver(fd: int, said: bytes) -> bool:
            data = join_connection(connection.peer, connection.arrived_s, said)
            taken = send(worker.channel, connection.kind, data, [fd])
            if taken:
                worker.keeps |= connection.keeps
                self._has_taken(worker, fd)
            return taken

        return connection.hand_over(deliver)

    def _send_visitor(self, worker: Worker, sock: socket.socket) -> None:
        with sock:
            send(
                worker.channel, Kind.VISIT, join_connection("supervisor", 0.0, b""), [sock.fileno()]
            )

    def _refuse_all(self, connection: Reception, error: errors.OpenEnvGymError) -> None:
        """Refuse a connection for which a place was taken."""
        connection.refuse(error)
        self._left(connection.peer)

    # -- what kinds of staff differ in --------------------------------------------------------

    @abstractmethod
    def _begin(self) -> None:
        """Start the first workers; `_begun` is set when they serve, or when they failed."""

    @abstractmethod
    def _is_ready(self, worker: Worker) -> None:
        """Note that a worker serves."""

    @abstractmethod
    def _has_left(self, worker: Worker, peer: str) -> None:
        """Note that one of its sessions has ended, of this peer as it says."""

    @abstractmethod
    def _has_taken(self, worker: Worker, fd: int) -> None:
        """Note that a worker was given a connection, whose descriptor is closed soon."""

    @abstractmethod
    def _ended(self, worker: Worker) -> None:
        """Note that a worker is gone."""

    @abstractmethod
    def _place(self, connection: Reception) -> None:
        """Give a worker a connection that wants a session."""

    @abstractmethod
    def _visit(self, sock: socket.socket) -> None:
        """Give a worker a connection that has said nothing yet."""


def _read_facts(data: bytes) -> dict[str, Any]:
    try:
        facts = json.loads(data[:_MAX_FACTS])
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}
