"""A bounded pool of threads that read, step and answer (leaders and followers).

All threads wait on the same poller. Whoever gets an event serves it to the end, steps included;
the others keep waiting, so that pings, cancels and other sessions are served meanwhile. A step is
never handed from one thread to another, which would cost more than most steps.

One thread waits at a time (the leader), because Python threads that all want to run only slow each
other down, and one that comes back soon finds its caches warm. When the leader has been inside a
step for a moment, a monitor sends another one; while steps are that long, each leader that goes
sends its successor itself. Where work piles up whose steps are worth a processor each, as many
threads wait as there are processors. When all but the last thread are inside steps, that one serves
everything that is not a step. Threads for which there was no use for a while end.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable

from openenv_gym.protocol.patience import Patience
from openenv_gym.server.poller import Event, Poller, make_poller


__all__ = ["Pool"]

_log = logging.getLogger(__name__)

_STUCK_S = 0.005  # nobody waits and nothing new began for this long: send another leader
_MAX_TICK_S = 0.04  # a monitor that keeps finding progress looks less often
_LONG_S = 0.5  # steps count as long for this time after one was
_LONG_STEP_S = 0.0001  # steps that take longer are worth another processor when work piles up
_LOOK_S = 0.0005  # look this long for the next event before sleeping
_BRIEF_S = 0.05
_MAX_BURST = 16  # leaders sent at once
_IDLE_S = 5.0  # a thread for which there was no use for this long ends
_HOUSEKEEPING_S = 0.5


class Pool:
    """Threads around one poller.

    Args:
        max_threads: Upper bound, at least 2.
        housekeeping: Called about twice a second by a thread of its own, with the monotonic time.
    """

    def __init__(
        self,
        *,
        max_threads: int = 64,
        housekeeping: Callable[[float], None] = lambda now_s: None,
    ) -> None:
        self.poller: Poller = make_poller()
        self.max_threads = max_threads
        self._max = max(max_threads, 2)
        self._cores = os.cpu_count() or 1
        self._housekeeping = housekeeping
        self._handlers: dict[int, Callable[[Event], None]] = {}
        self._lock = threading.Lock()
        self._successor = threading.Condition(self._lock)
        self._leaders = 1
        self._parked = 0
        self._long_until_s = 0.0
        self._threads: set[threading.Thread] = set()
        self._waiting = 0
        self._running = 0
        self._turns = 0
        self._found_at_once = 0
        self._last_fd = -1
        self._busy_s = 0.0
        self._deferred: deque[Callable[[], None]] = deque()
        self._attention = threading.Event()
        self._stopping = False
        self._living = 0
        self._monitor = threading.Thread(target=self._watch, name="openenv-monitor", daemon=True)

    # -- descriptors --------------------------------------------------------------------------

    def add(self, fd: int, handler: Callable[[Event], None]) -> None:
        """Have `handler` called, by any thread, with the next event of a descriptor."""
        self._handlers[fd] = handler
        self.poller.add(fd)

    def arm(self, fd: int, *, read: bool = True, write: bool = False) -> None:
        """Ask for one more event of a descriptor."""
        self.poller.arm(fd, read=read, write=write)

    def remove(self, fd: int) -> None:
        """Forget a descriptor; call it before closing."""
        self._handlers.pop(fd, None)
        self.poller.remove(fd)

    # -- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the threads."""
        self._living += 1
        self._spawn()
        self._monitor.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """End the threads; those in a step end after it (they are daemons)."""
        with self._lock:
            self._living += 1  # the last one closes the poller, which nobody may do before us
            self._stopping = True
        self.poller.wake_all()
        self._attention.set()
        with self._lock:
            self._successor.notify_all()
        self._leave()
        end_s = time.monotonic() + timeout_s
        _join(self._monitor, end_s)  # which sends others
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            _join(thread, end_s)

    def _leave(self) -> None:
        """End a thread; the last one closes what they all waited on."""
        with self._lock:
            self._living -= 1
            last = self._stopping and self._living == 0
        if last:
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
        try:
            self._spawn(work)
        except RuntimeError:  # the system gives no thread
            self._run(work)

    def _run(self, work: Callable[[], None]) -> None:
        """Run work, then what had to wait for a thread; nothing that it raises ends a thread."""
        while True:
            try:
                work()
            except BaseException:
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
            thread.start()
            self._threads.add(thread)
            self._living += 1

    def _serve(self, first: Callable[[], None] | None) -> None:
        try:
            self._serve_events(first)
        finally:
            self._leave()
            with self._lock:
                if not self._stopping:  # else `stop` waits for it, to its very end
                    self._threads.discard(threading.current_thread())

    def _serve_events(self, first: Callable[[], None] | None) -> None:
        if first is not None:
            self._run(first)
        patience = Patience(_LOOK_S)
        begin_s = time.perf_counter()
        while True:
            with self._lock:
                self._busy_s += time.perf_counter() - begin_s
                if not self._lead():
                    return
                alone = self._waiting == 1
            event, at_once = self._next_event(patience) if alone else (self._brief_wait(), False)
            begin_s = time.perf_counter()
            with self._lock:
                self._waiting -= 1
                self._turns += 1
                if event is not None and event.fd != self._last_fd:
                    # A single client in lockstep is often quick, too, but needs no second thread.
                    self._found_at_once += at_once
                    self._last_fd = event.fd
                nobody_waits = self._waiting == 0
                if nobody_waits and self._parked and begin_s < self._long_until_s:
                    self._successor.notify()
            if nobody_waits and not self._attention.is_set():
                self._attention.set()
            handler = self._handlers.get(event.fd) if event is not None else None
            if event is not None and handler is not None:
                try:
                    handler(event)
                except BaseException:
                    _log.exception("Unexpected failure while serving a connection")

    def _lead(self) -> bool:
        """Wait, with the lock held, until this thread is to wait for events; False: it ends."""
        while not self._stopping and self._waiting >= self._leaders:
            self._parked += 1
            called = self._successor.wait(_IDLE_S)
            self._parked -= 1
            if not called and self._waiting >= self._leaders:
                return False
        if self._stopping:
            return False
        self._waiting += 1
        return True

    def _next_event(self, patience: Patience) -> tuple[Event | None, bool]:
        """Return the next event, and whether it was there already."""
        wait = self.poller.wait
        if not patience.begin():
            return wait(_IDLE_S), False
        event = wait(0)
        if event is not None:
            return event, True
        while patience.again():
            event = wait(0)
            if event is not None:
                return event, False
        return wait(_IDLE_S), False

    def _brief_wait(self) -> Event | None:
        """Wait beside others, for a moment: then see whether that many are still wanted.

        The kernel gives an event to a sleeping thread rather than to one that will look again, so
        one that sleeps for no reason would keep the leader from looking.
        """
        return self.poller.wait(_BRIEF_S)

    def _watch(self) -> None:
        try:
            self._keep_leaders()
        finally:
            self._leave()

    def _keep_leaders(self) -> None:
        """Send leaders where none is left, and keep house."""
        due_s = time.monotonic() + _HOUSEKEEPING_S
        turns = 0
        tick_s = _STUCK_S
        wanted = 1
        while not self._stopping:
            if self._attention.wait(_HOUSEKEEPING_S):
                time.sleep(tick_s)
                with self._lock:
                    new_turns, turns = self._turns - turns, self._turns
                    turn_s = self._busy_s / max(new_turns, 1)
                    behind = self._found_at_once > new_turns / 4 and turn_s > _LONG_STEP_S
                    self._leaders = self._cores if behind else 1
                    self._found_at_once, self._busy_s = 0, 0.0
                    calm = self._waiting > 0
                    stuck = not calm and new_turns == 0
                    if stuck:
                        self._long_until_s = time.perf_counter() + _LONG_S
                    missing = stuck or (behind and self._waiting + self._running < self._cores)
                    # Where one thread did not help, twice as many may.
                    wanted = min(2 * wanted, _MAX_BURST) if stuck else 1
                    called = min(wanted, self._parked) if missing else 0
                    self._successor.notify(called)
                    room = self._max - len(self._threads)
                    spawned = min(wanted - called, room) if missing else 0
                    if stuck:
                        self._leaders = max(self._leaders, wanted)
                tick_s = _STUCK_S if calm or missing else min(2 * tick_s, _MAX_TICK_S)
                for _ in range(spawned):
                    try:
                        self._spawn()
                    except RuntimeError:  # the system gives no thread now, but may later
                        tick_s = _MAX_TICK_S
                        break
                if calm or (stuck and not called and not spawned):
                    self._attention.clear()
            now_s = time.monotonic()
            if now_s >= due_s:
                due_s = now_s + _HOUSEKEEPING_S
                try:
                    self._housekeeping(now_s)
                except Exception:
                    _log.exception("Unexpected failure in housekeeping")


def _join(thread: threading.Thread, end_s: float) -> None:
    """Wait for the end of a thread that was started, unless it is this one."""
    if thread is not threading.current_thread() and thread.ident is not None:
        thread.join(max(end_s - time.monotonic(), 0.0))
