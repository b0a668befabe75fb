"""A bounded pool of threads that read, step and answer (leaders and followers).

All threads wait on the same poller. Whoever gets an event serves it to the end, steps included;
the others keep waiting, so that pings, cancels and other sessions are served meanwhile. A step is
never handed from one thread to another, which would cost more than most steps.

The pool starts small, because Python threads that all want to run only slow each other down. It
grows when every thread has been busy with the same work for a moment (steps that sleep, or compute
for long), up to its bound, where one thread always stays free for everything that is not a step.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable

from openenv_gym.server.poller import Event, Poller, make_poller


__all__ = ["Pool"]

_log = logging.getLogger(__name__)

_STUCK_S = 0.005  # all threads busy for this long with nothing new begun: grow
_IDLE_S = 30.0  # a thread beyond the base that waited this long ends
_HOUSEKEEPING_S = 0.5


class Pool:
    """Threads around one poller.

    Args:
        base_threads: Threads that are always there; by default the cores, at least 2, at most 4.
        max_threads: Upper bound.
        housekeeping: Called about twice a second by a thread of its own, with the monotonic time.
    """

    def __init__(
        self,
        *,
        base_threads: int | None = None,
        max_threads: int = 64,
        housekeeping: Callable[[float], None] = lambda now_s: None,
    ) -> None:
        self.poller: Poller = make_poller()
        self._base = base_threads or min(max(os.cpu_count() or 2, 2), 4)
        self._max = max(max_threads, self._base, 2)
        self._housekeeping = housekeeping
        self._handlers: dict[int, Callable[[Event], None]] = {}
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._waiting = 0
        self._running = 0
        self._turns = 0
        self._deferred: deque[Callable[[], None]] = deque()
        self._attention = threading.Event()
        self._stopping = False
        self._monitor = threading.Thread(target=self._watch, name="openenv-monitor", daemon=True)

    # -- descriptors --------------------------------------------------------------------------

    def add(self, fd: int, handler: Callable[[Event], None]) -> None:
        """Have `handler` called, by any thread, with the next event of a descriptor."""
        self._handlers[fd] = handler
        self.poller.add(fd)

    def arm(self, fd: int, *, write: bool = False) -> None:
        """Ask for one more event of a descriptor."""
        self.poller.arm(fd, write=write)

    def remove(self, fd: int) -> None:
        """Forget a descriptor; call it before closing."""
        self._handlers.pop(fd, None)
        self.poller.remove(fd)

    # -- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the threads."""
        for _ in range(self._base):
            self._spawn()
        self._monitor.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """End the threads; those in a step end after it (they are daemons)."""
        self._stopping = True
        self.poller.wake_all()
        self._attention.set()
        end_s = time.monotonic() + timeout_s
        with self._lock:
            threads = [*self._threads, self._monitor]
        for thread in threads:
            if thread is not threading.current_thread() and thread.ident is not None:
                thread.join(max(end_s - time.monotonic(), 0.0))
        if not any(thread.is_alive() for thread in threads):
            self.poller.close()

    # -- work ---------------------------------------------------------------------------------

    def run(self, work: Callable[[], None]) -> None:
        """Run long work in this thread, or later when all but the last thread run such work."""
        with self._lock:
            if self._running >= self._max - 1:
                self._deferred.append(work)
                return
            self._running += 1
        self._run(work)

    def spawn(self, work: Callable[[], None]) -> None:
        """Run long work in another thread of the pool's bound, started for it if need be."""
        with self._lock:
            if self._running >= self._max - 1:
                self._deferred.append(work)
                return
            self._running += 1
        self._spawn(work)

    def _run(self, work: Callable[[], None]) -> None:
        while True:
            try:
                work()
            except Exception:
                _log.exception("Unexpected failure in a session")
            with self._lock:
                if not self._deferred:
                    self._running -= 1
                    return
                work = self._deferred.popleft()

    def _spawn(self, first: Callable[[], None] | None = None) -> None:
        thread = threading.Thread(
            target=self._serve, args=(first,), name="openenv-worker", daemon=True
        )
        with self._lock:
            self._threads.add(thread)
        thread.start()

    def _serve(self, first: Callable[[], None] | None) -> None:
        if first is not None:
            self._run(first)
        wait, handlers, lock = self.poller.wait, self._handlers, self._lock
        while not self._stopping:
            with lock:
                self._waiting += 1
            event = wait(_IDLE_S)
            with lock:
                self._waiting -= 1
                self._turns += 1
                all_busy = self._waiting == 0
            if all_busy and not self._attention.is_set():
                self._attention.set()
            if event is not None:
                handler = handlers.get(event.fd)
                if handler is not None:
                    try:
                        handler(event)
                    except Exception:
                        _log.exception("Unexpected failure while serving a connection")
            elif len(self._threads) > self._base:
                break
        with lock:
            self._threads.discard(threading.current_thread())

    def _watch(self) -> None:
        """Grow the pool when it is stuck, and keep house."""
        due_s = time.monotonic() + _HOUSEKEEPING_S
        turns = -1
        while not self._stopping:
            if self._attention.wait(_HOUSEKEEPING_S):
                time.sleep(_STUCK_S)
                with self._lock:
                    stuck = self._waiting == 0 and self._turns == turns
                    calm = self._waiting > 0
                    turns = self._turns
                    room = len(self._threads) < self._max
                if calm:
                    self._attention.clear()
                elif stuck and room:
                    self._spawn()
                elif stuck:
                    self._attention.clear()  # full: only housekeeping is left to do
            now_s = time.monotonic()
            if now_s >= due_s:
                due_s = now_s + _HOUSEKEEPING_S
                try:
                    self._housekeeping(now_s)
                except Exception:
                    _log.exception("Unexpected failure in housekeeping")
