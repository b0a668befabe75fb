"""What a server counts, and how it is written for whoever watches it.

Sessions and connections count for themselves, with plain integers: that costs a step next to
nothing. They are added up where somebody asks, and where they end.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any

from openenv_gym import metrics
from openenv_gym.errors import EnvironmentFailedError, OpenEnvGymError
from openenv_gym.metrics import Family, Tally


__all__ = ["Figures", "code_of", "write_figures"]

_MAX_CODES = 64
_MAX_CODE = 40  # characters
_MAX_COUNT = 1 << 64


class Figures:
    """Sums, over what has ended and over what goes on.

    Attributes:
        steps: How long environments took for steps.
        claims: How long clients took to get a session: from HELLO to WELCOME.
        errors: Errors by code.
        received_bytes: What came from clients.
        sent_bytes: What went to them.
    """

    def __init__(self) -> None:
        self.steps = Tally()
        self.claims = Tally()
        self.errors: Counter[str] = Counter()
        self.received_bytes = 0
        self.sent_bytes = 0
        self._lock = threading.Lock()

    def error(self, code: str) -> None:
        """Count an error."""
        with self._lock:
            self.errors[code] += 1

    def claim(self, ns: int) -> None:
        """Count a session that was opened, and how long that took."""
        with self._lock:
            self.claims.add(ns)

    def end_session(self, steps: Tally) -> None:
        """Count what a session has counted that has ended."""
        with self._lock:
            self.steps.merge(steps)

    def end_connection(self, received_bytes: int, sent_bytes: int) -> None:
        """Count what went over a connection that has ended."""
        with self._lock:
            self.received_bytes += received_bytes
            self.sent_bytes += sent_bytes

    def copy(self) -> Figures:
        """Return equal figures, which are nobody else's."""
        copied = Figures()
        with self._lock:
            copied.merge(self)
        return copied

    def merge(self, other: Figures) -> None:
        """Count what others have counted; for figures that are nobody else's."""
        self.steps.merge(other.steps)
        self.claims.merge(other.claims)
        self.errors.update(other.errors)
        self.received_bytes += other.received_bytes
        self.sent_bytes += other.sent_bytes

    def to_wire(self) -> dict[str, Any]:
        """Return what `from_wire` reads."""
        return {
            "steps": self.steps.to_wire(),
            "claims": self.claims.to_wire(),
            "errors": dict(self.errors),
            "bytes": [self.received_bytes, self.sent_bytes],
        }

    @classmethod
    def from_wire(cls, data: Any) -> Figures:
        """Read figures of another process, which may be anything.

        Raises:
            ValueError: They are none.
        """
        self = cls()
        match data:
            case {
                "steps": steps,
                "claims": claims,
                "errors": dict(counts),
                "bytes": [int(received_bytes), int(sent_bytes)],
            } if 0 <= received_bytes < _MAX_COUNT and 0 <= sent_bytes < _MAX_COUNT:
                self.steps, self.claims = Tally.from_wire(steps), Tally.from_wire(claims)
                self.received_bytes, self.sent_bytes = received_bytes, sent_bytes
            case _:
                raise ValueError("no figures")
        for code, count in list(counts.items())[:_MAX_CODES]:
            if type(count) is int and 0 <= count < _MAX_COUNT and code.isidentifier():
                self.errors[code[:_MAX_CODE]] += count
        return self


def code_of(error: BaseException) -> str:
    """Return as what an exception is counted: by the code that the client is told.

    Others have a `code` too, which is anything: that of `sys.exit` is a message.
    """
    return error.code if isinstance(error, OpenEnvGymError) else EnvironmentFailedError.code


def write_figures(figures: Figures, *, active: int, queued: int, capacity: int) -> str:
    """Return what ``/metrics`` answers.

    Args:
        figures: Sums.
        active: Sessions that exist or are being opened.
        queued: Clients that wait for a place.
        capacity: Sessions that may exist at once.
    """
    families: Iterable[Family] = [
        Family("openenv_sessions_active", "gauge", "Sessions that exist.", [("", active)]),
        Family("openenv_sessions_queued", "gauge", "Clients waiting for one.", [("", queued)]),
        Family("openenv_sessions_capacity", "gauge", "Sessions that may exist.", [("", capacity)]),
        figures.steps.to_family(
            "openenv_step_seconds", "What environments took for a step, a vector's as one."
        ),
        figures.claims.to_family(
            "openenv_claim_seconds", "From asking for a session to having it, waiting included."
        ),
        metrics.counter_family(
            "openenv_errors_total", "Errors told to clients, by code.", "code", figures.errors
        ),
        metrics.counter_family(
            "openenv_received_bytes_total",
            "Bytes from clients.",
            None,
            {"": figures.received_bytes},
        ),
        metrics.counter_family(
            "openenv_sent_bytes_total", "Bytes to clients.", None, {"": figures.sent_bytes}
        ),
        *metrics.PROCESS.families(),
    ]
    return metrics.to_text(families)
