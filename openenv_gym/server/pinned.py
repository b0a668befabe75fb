"""Threads for environments that must be called from one thread alone."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable


__all__ = ["PinnedThread"]

_log = logging.getLogger(__name__)


class PinnedThread:
    """A thread that does everything for the sessions of an environment with thread affinity."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="openenv-pinned", daemon=True).start()

    def put(self, work: Callable[[], None]) -> None:
        """Have something done in this thread."""
        self._work.put(work)

    def stop(self) -> None:
        """End the thread after what it was given."""
        self._work.put(None)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except BaseException:
                _log.exception("Unexpected failure in a session")
