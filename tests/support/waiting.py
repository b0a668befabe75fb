"""Waiting for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable


__all__ = ["eventually"]


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
