"""What a benchmark is: contenders, what is measured of them, and what is asked of ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


__all__ = ["Benchmark", "Contender", "Limit", "Measure", "Peer", "Quantity"]

Quantity = Literal["time", "memory"]
"""What a round yields: seconds for its steps, or bytes for its sessions."""

Measure = Literal["time", "rate", "difference", "memory"]
"""What of two contenders is compared."""


@dataclass(frozen=True)
class Contender:
    """Something that takes steps, or holds sessions.

    Attributes:
        name: As tables show it.
        driver: Name of a module in `benchmarks.drivers`.
        options: Its options, plain data.
        steps: Steps (or sessions) of one round; about a second's worth of steps.
        python: Makes its interpreter ready and returns it; this one where it is None.
    """

    name: str
    driver: str
    options: dict[str, Any]
    steps: int
    python: Callable[[], str] | None = None


@dataclass(frozen=True)
class Limit:
    """What ours must reach against a peer; exactly one of the three is set.

    Attributes:
        time_at_most: Ours may take this many times the peer's time for a step.
        rate_at_least: Ours must make this many times the peer's steps in a second.
        more_at_most_s: Ours may take this much longer than the peer.
    """

    time_at_most: float | None = None
    rate_at_least: float | None = None
    more_at_most_s: float | None = None

    @property
    def measure(self) -> Measure:
        """What is compared."""
        if self.more_at_most_s is not None:
            return "difference"
        return "time" if self.time_at_most is not None else "rate"

    def holds(self, value: float) -> bool:
        """Tell whether what `Benchmark.compare` returned is within the limit."""
        most = self.more_at_most_s if self.more_at_most_s is not None else self.time_at_most
        return value <= most if most is not None else value >= (self.rate_at_least or 0.0)

    def __str__(self) -> str:
        if self.more_at_most_s is not None:
            return f"time <= +{self.more_at_most_s:g} s"
        if self.time_at_most is not None:
            return f"time <= {self.time_at_most:g}x"
        return f"rate >= {self.rate_at_least:g}x"


@dataclass(frozen=True)
class Peer:
    """A contender that ours is compared with.

    Attributes:
        contender: It.
        limit: What ours must reach; None where it is only shown beside ours.
        optional: It is left out where it cannot be had.
    """

    contender: Contender
    limit: Limit | None = None
    optional: bool = False


@dataclass(frozen=True)
class Benchmark:
    """Ours, its peers, and what is asked of ours.

    Attributes:
        name: On the command line.
        title: For people.
        ours: This library.
        peers: What it is compared with.
        quantity: What is measured.
        num_envs: Environments that a step moves, so that there are as many observations.
    """

    name: str
    title: str
    ours: Contender
    peers: tuple[Peer, ...]
    quantity: Quantity = "time"
    num_envs: int = 1

    def measure(self, peer: Peer) -> Measure:
        """Return what of ours and of a peer is compared."""
        if peer.limit is not None:
            return peer.limit.measure
        return "memory" if self.quantity == "memory" else "rate"

    def compare(self, peer: Peer, ours: float, theirs: float) -> float:
        """Return what is compared, of two medians: seconds for a step, or bytes for a session."""
        measure = self.measure(peer)
        if measure == "difference":
            return ours - theirs
        return theirs / ours if measure == "rate" else ours / theirs
