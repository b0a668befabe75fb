"""How many containers are created, and how many removed, at once.

Two limits: removing must not wait behind a crowd that is created, or a full machine never empties.
They count for all providers of a process that name the same number.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

from openenv_gym.errors import ServerStartError


__all__ = ["DEFAULT_AT_ONCE", "creating", "removing"]

DEFAULT_AT_ONCE = 16

_CREATE_S = 300.0
_REMOVE_S = 30.0

# Reentrant: the garbage collector may run a finalizer, which removes, in any line of ours.
_lock = threading.RLock()
_places: dict[tuple[str, str, int], threading.BoundedSemaphore] = {}


@contextlib.contextmanager
def creating(daemon: str, at_once: int) -> Iterator[None]:
    """Hold one of the places for creating.

    Raises:
        ServerStartError: None became free.
    """
    places = _places_of(daemon, "create", at_once)
    if not places.acquire(timeout=_CREATE_S):
        raise ServerStartError(
            f"{at_once} containers are being created, and none was ready within {_CREATE_S:.0f} s.",
            hint="Look at the daemon's log, or raise DockerProvider(max_creates=).",
        )
    try:
        yield
    finally:
        places.release()


@contextlib.contextmanager
def removing(daemon: str, at_once: int) -> Iterator[None]:
    """Hold one of the places for removing; after a while, go on without one."""
    places = _places_of(daemon, "remove", at_once)
    # Whoever waits may be a finalizer in the middle of somebody's removal: not for ever.
    held = places.acquire(timeout=_REMOVE_S)
    try:
        yield
    finally:
        if held:
            places.release()


def _places_of(daemon: str, what: str, at_once: int) -> threading.BoundedSemaphore:
    with _lock:
        return _places.setdefault((daemon, what, at_once), threading.BoundedSemaphore(at_once))


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()
    _places.clear()


os.register_at_fork(after_in_child=_after_fork)
