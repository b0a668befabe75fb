"""Who has hung up: seen from outside, for a session's process may not want to tell."""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import time
from collections.abc import Callable


__all__ = ["HangUps"]


class HangUps:
    """Connections that others read and write, watched for their end.

    Args:
        selector: Becomes ready when somebody has hung up.

    Attributes:
        silent: Groups with connections that have all ended, and when the last one did.
    """

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self.silent: dict[int, float] = {}
        self._groups: dict[int, int] = {}
        self._epoll: select.epoll | None = None
        if hasattr(select, "EPOLLRDHUP"):  # elsewhere nobody is watched
            self._epoll = select.epoll()
            selector.register(self._epoll.fileno(), selectors.EVENT_READ, None)

    def watch(self, group: int, fd: int) -> None:
        """Watch a connection; the descriptor may be closed afterwards."""
        self.silent.pop(group, None)
        if self._epoll is None:
            return
        with contextlib.suppress(OSError):  # out of descriptors: not watched
            copy = os.dup(fd)
            self._groups[copy] = group
            self._epoll.register(copy, select.EPOLLRDHUP)  # and neither reading nor writing

    def overdue(self, after_s: Callable[[int], float]) -> list[int]:
        """Return groups that have been silent for longer than each may be, once."""
        if self._epoll is not None:
            for fd, _ in self._epoll.poll(0):
                group = self._groups[fd]
                self._close(fd)
                if group not in self._groups.values():
                    self.silent[group] = time.monotonic()
        now_s = time.monotonic()
        late = [group for group, since_s in self.silent.items() if now_s > since_s + after_s(group)]
        for group in late:
            del self.silent[group]
        return late

    def forget(self, group: int) -> None:
        """Watch no connection of a group any longer, and hold none open."""
        self.silent.pop(group, None)
        for fd in [fd for fd, other in self._groups.items() if other == group]:
            self._close(fd)

    def _close(self, fd: int) -> None:
        del self._groups[fd]
        if self._epoll is not None:
            with contextlib.suppress(OSError):
                self._epoll.unregister(fd)
        os.close(fd)
