"""Whether to look again for bytes, or to sleep until they come.

Waking a sleeping thread on an idle processor takes longer than a small step: the waker has to
interrupt the other processor, and the sleeper comes back to cold caches. So both sides look a few
times before they sleep. That must cost nothing where processors are scarce: between two looks the
processor is offered to others, and where one of them takes it, or the bytes do not come soon, there
is no looking for a while.
"""

from __future__ import annotations

import os
import time


__all__ = ["Patience"]

_REST = 4  # waits without looking, after one in which looking did not pay;
_REST_GROWTH, _MAX_REST = 4, 256  # so many times more each time it does not pay again
_TAKEN_NS = 600_000  # a look takes 2 us; when the next is this late, somebody else has run

_offer_processor = getattr(os, "sched_yield", None)


class Patience:
    """Decides about looking, for one waiting thread.

    Args:
        limit_s: How long to look at most.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_ns = int(limit_s * 1e9) if _offer_processor is not None else 0
        self._rest = 0
        self._next_rest = _REST
        self._paid = True
        self._end_ns = 0
        self._last_ns = 0

    def begin(self) -> bool:
        """Tell whether to look at all this time."""
        if self._rest > 0 or not self._limit_ns:
            self._rest -= 1
            return False
        if self._paid:
            self._next_rest = _REST
        self._paid = True
        self._last_ns = time.perf_counter_ns()
        self._end_ns = self._last_ns + self._limit_ns
        return True

    def again(self) -> bool:
        """After a look in vain: offer the processor, and tell whether to look again."""
        if _offer_processor is not None:
            _offer_processor()
        now_ns = time.perf_counter_ns()
        if now_ns > self._end_ns or now_ns - self._last_ns > _TAKEN_NS:
            self._paid = False
            self._rest = self._next_rest
            self._next_rest = min(self._next_rest * _REST_GROWTH, _MAX_REST)
            return False
        self._last_ns = now_ns
        return True
