"""Readiness of sockets, shared by several threads: each event wakes exactly one of them.

Every file descriptor is armed for one event at a time. The thread that gets the event reads, arms
the descriptor again and goes on with its work, while other threads already wait for the next event.
So no thread hands anything to another one, and none is needed for each session.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import threading
from typing import NamedTuple, Protocol


__all__ = ["Event", "Poller", "make_poller"]


class Event(NamedTuple):
    """A descriptor that is ready (an error or hang-up counts as readable)."""

    fd: int
    readable: bool
    writable: bool


class Poller(Protocol):
    """What the pool needs of the system."""

    def add(self, fd: int) -> None:
        """Watch a descriptor for one event: something to read."""

    def arm(self, fd: int, *, read: bool = True, write: bool = False) -> None:
        """Watch it for one more event: something to read, room to write, or either."""

    def remove(self, fd: int) -> None:
        """Forget a descriptor; call it before closing."""

    def wait(self, timeout_s: float) -> Event | None:
        """Return one event, or None after the time or a `wake_all`."""

    def wake_all(self) -> None:
        """Make every present and future `wait` return None."""

    def descriptors(self) -> list[int]:
        """Return what the poller itself keeps open."""

    def close(self) -> None:
        """Free what the poller holds."""


def make_poller() -> Poller:
    """Return the best poller of this platform."""
    if hasattr(select, "epoll"):
        return EpollPoller()
    return SelectorPoller()


class EpollPoller:
    """Linux: the kernel itself wakes one waiting thread for each event (``EPOLLONESHOT``)."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._wake_fd, self._wake_end = os.pipe()
        self._epoll.register(self._wake_fd, select.EPOLLIN)  # level-triggered: wakes one by one

    def add(self, fd: int) -> None:
        self._epoll.register(fd, _epoll_mask(read=True, write=False))

    def arm(self, fd: int, *, read: bool = True, write: bool = False) -> None:
        self._epoll.modify(fd, _epoll_mask(read, write))

    def remove(self, fd: int) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._epoll.unregister(fd)

    def wait(self, timeout_s: float) -> Event | None:
        for fd, mask in self._epoll.poll(timeout_s, 1):
            if fd != self._wake_fd:
                return Event(fd, bool(mask & ~select.EPOLLOUT), bool(mask & select.EPOLLOUT))
        return None

    def wake_all(self) -> None:
        os.write(self._wake_end, b"x")

    def descriptors(self) -> list[int]:
        return [self._epoll.fileno(), self._wake_fd, self._wake_end]

    def close(self) -> None:
        self._epoll.close()
        os.close(self._wake_fd)
        os.close(self._wake_end)


def _epoll_mask(read: bool, write: bool) -> int:
    wanted = (select.EPOLLIN if read else 0) | (select.EPOLLOUT if write else 0)
    return wanted | select.EPOLLONESHOT


class SelectorPoller:
    """Elsewhere: one thread at a time selects (the leader), the others wait for their turn."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._leading = threading.Lock()
        self._changing = threading.Lock()
        self._armed: dict[int, int] = {}
        self._wake_fd, self._wake_end = os.pipe()
        os.set_blocking(self._wake_fd, False)
        self._stopped = False
        self._selector.register(self._wake_fd, selectors.EVENT_READ)

    def add(self, fd: int) -> None:
        self.arm(fd)

    def arm(self, fd: int, *, read: bool = True, write: bool = False) -> None:
        mask = (selectors.EVENT_READ if read else 0) | (selectors.EVENT_WRITE if write else 0)
        with self._changing:
            self._armed[fd] = mask
        self._nudge()

    def remove(self, fd: int) -> None:
        with self._changing:
            self._armed.pop(fd, None)
            with contextlib.suppress(KeyError, ValueError, OSError):
                self._selector.unregister(fd)
        self._nudge()

    def wait(self, timeout_s: float) -> Event | None:
        if not self._leading.acquire(timeout=timeout_s):
            return None
        try:
            while not self._stopped:
                self._apply_changes()
                ready = self._selector.select(timeout_s)
                if not ready:
                    return None
                for key, mask in ready:
                    if key.fd == self._wake_fd:
                        self._drain()
                        continue
                    with self._changing, contextlib.suppress(KeyError):
                        self._selector.unregister(key.fd)
                    readable = bool(mask & selectors.EVENT_READ)
                    return Event(key.fd, readable, bool(mask & selectors.EVENT_WRITE))
            return None
        finally:
            self._leading.release()

    def wake_all(self) -> None:
        self._stopped = True
        self._nudge()

    def descriptors(self) -> list[int]:
        return [self._wake_fd, self._wake_end]

    def close(self) -> None:
        self._selector.close()
        os.close(self._wake_fd)
        os.close(self._wake_end)

    def _apply_changes(self) -> None:
        with self._changing:
            for fd, mask in self._armed.items():
                try:
                    self._selector.register(fd, mask)
                except KeyError:
                    self._selector.modify(fd, mask)
            self._armed.clear()

    def _nudge(self) -> None:
        os.write(self._wake_end, b"x")

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_fd, 4096)
