"""Waiting for what another process does, and having a client wait for no longer than so long."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any


__all__ = ["eventually", "impatient"]


def eventually(condition: Callable[[], bool], within_s: float = 30.0) -> bool:
    """Tell whether a condition holds, at the latest after so long."""
    end_s = time.monotonic() + within_s
    late = False
    while not condition():
        if late:
            return False
        time.sleep(0.02)
        late = time.monotonic() > end_s  # looked at once more: all may have stood still until now
    return True


@contextlib.contextmanager
def impatient(*connections: Any, limit_s: float = 0.3) -> Iterator[None]:
    """Have requests of these connections take no longer, and none before or after: those succeed.

    Args:
        *connections: Sessions, of `openenv_gym.client.Connection`.
        limit_s: For a request that nobody answers meanwhile.
    """
    before = [each._timeout_s for each in connections]
    for each in connections:
        each._timeout_s = limit_s
    try:
        yield
    finally:
        for each, timeout_s in zip(connections, before, strict=True):
            each._timeout_s = timeout_s
