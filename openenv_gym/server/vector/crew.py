"""A few threads of one session, started when there is work for them."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable


__all__ = ["Crew"]

_log = logging.getLogger(__name__)

_IDLE_S = 5.0  # a thread for which there was no work for this long ends

Task = Callable[[], None]


class Crew:
    """Threads that do what they are given, in any order.

    Args:
        size: Most threads at once.

    Attributes:
        size: The same.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._lock = threading.Condition(threading.Lock())
        self._tasks: deque[Task] = deque()
        self._threads = 0
        self._idle = 0
        self._closed = False
        self._told = False

    def put(self, task: Task) -> None:
        """Have something done soon; at once, and here, where there can be no thread at all."""
        with self._lock:
            self._tasks.append(task)
            if self._idle >= len(self._tasks):
                self._lock.notify()
                return
            if self._threads >= self.size or self._start() or self._threads:
                return
            self._tasks.remove(task)
        task()

    def _start(self) -> bool:
        """Start a thread, with the lock held; False where the system has none left."""
        try:
            threading.Thread(target=self._serve, name="openenv-vector", daemon=True).start()
        except RuntimeError:  # in a container their number is bounded
            if not self._told:
                self._told = True
                _log.warning(
                    "No more than %d threads can be started for a session's steps; the "
                    "others wait for those.",
                    self._threads,
                )
            return False
        self._threads += 1
        return True

    def share(self, task: Task, helpers: int) -> None:
        """Run a task here and in other threads at once; return when all of them are through.

        Args:
            task: It takes its work from where the others take theirs, and ends when none is left.
            helpers: How many others.
        """
        finished = threading.Semaphore(0)

        def help_out() -> None:
            try:
                task()
            finally:
                finished.release()

        for _ in range(helpers):
            self.put(help_out)
        task()
        with self._lock:
            # Who has not begun by now would find nothing to do.
            late = self._tasks.count(help_out)
            for _ in range(late):
                self._tasks.remove(help_out)
        for _ in range(helpers - late):
            finished.acquire()

    def close(self) -> None:
        """Drop what nobody has begun, and end the threads after what they are at."""
        with self._lock:
            self._closed = True
            self._tasks.clear()
            self._lock.notify_all()

    def _serve(self) -> None:
        while True:
            with self._lock:
                while not self._tasks:
                    self._idle += 1
                    called = not self._closed and self._lock.wait(_IDLE_S)
                    self._idle -= 1
                    if not self._tasks and (self._closed or not called):
                        self._threads -= 1
                        return
                task = self._tasks.popleft()
            try:
                task()
            except BaseException:
                _log.exception("Unexpected failure in a vector session")
