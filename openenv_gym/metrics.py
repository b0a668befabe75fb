"""Figures in Prometheus' text format, and those that a whole process counts.

::

    from openenv_gym import metrics

    hits = metrics.PROCESS.counter("openenv_warm_hits_total", "Servers taken from a warm pool.")
    hits.add()
    print(metrics.PROCESS.to_text())

A server writes what its process counts beside its own figures (docs/operations.md).
"""

from __future__ import annotations

import threading
from collections import Counter as Counts
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


__all__ = [
    "CONTENT_TYPE",
    "PROCESS",
    "Counter",
    "Family",
    "Registry",
    "Tally",
    "counter_family",
    "to_text",
]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_BITS = 64
# Bounds of buckets are powers of two, for which finding the bucket of a duration is one call.
_SHOWN_BITS = range(10, 40, 2)  # from 1 us to 275 s


class Family(NamedTuple):
    """A figure, or several that differ in one label.

    Attributes:
        name: Its name.
        kind: ``counter``, ``gauge`` or ``histogram``.
        help: What it tells, in a line.
        samples: What follows the name (a suffix, labels), and the values.
    """

    name: str
    kind: str
    help: str
    samples: list[tuple[str, float]]


class Tally:
    """Durations, counted by their size: how many there were below each power of two nanoseconds.

    Whoever counts many of them does what `add` does himself. One thread at a time may count.

    Attributes:
        counts: By the number of bits that a duration in nanoseconds has.
        total_ns: Sum of all.
    """

    __slots__ = ("counts", "total_ns")

    def __init__(self) -> None:
        self.counts = [0] * (_BITS + 1)
        self.total_ns = 0

    def add(self, ns: int) -> None:
        """Count a duration, in nanoseconds."""
        self.counts[min(ns.bit_length(), _BITS)] += 1
        self.total_ns += ns

    def merge(self, other: Tally) -> None:
        """Count what another one has counted."""
        # In place: whoever counts holds on to this list.
        for bits, count in enumerate(other.counts):
            self.counts[bits] += count
        self.total_ns += other.total_ns

    def to_wire(self) -> list[int]:
        """Return what `from_wire` reads."""
        return [*self.counts, self.total_ns]

    @classmethod
    def from_wire(cls, data: Any) -> Tally:
        """Read a tally of another process.

        Raises:
            ValueError: It is none.
        """
        if not isinstance(data, list) or len(data) != _BITS + 2:
            raise ValueError("no tally")
        if not all(type(count) is int and 0 <= count < 1 << _BITS for count in data):
            raise ValueError("no tally")
        self = cls()
        self.counts, self.total_ns = data[:-1], data[-1]
        return self

    def to_family(self, name: str, help: str) -> Family:
        """Return a histogram in seconds."""
        samples: list[tuple[str, float]] = []
        for bits in _SHOWN_BITS:
            below = sum(self.counts[: bits + 1])
            samples.append((f'_bucket{{le="{2**bits / 1e9!r}"}}', below))
        count = sum(self.counts)
        samples += [
            ('_bucket{le="+Inf"}', count),
            ("_sum", self.total_ns / 1e9),
            ("_count", count),
        ]
        return Family(name, "histogram", help, samples)


class Counter:
    """Something that is counted, by the value of one label where it has one.

    Args:
        name: Its name, which ends in ``_total``.
        help: What it tells, in a line.
        label: Name of the label; None: it has none.
    """

    def __init__(self, name: str, help: str, label: str | None = None) -> None:
        self.name = name
        self.help = help
        self.label = label
        self._lock = threading.Lock()
        self._counts: Counts[str] = Counts() if label else Counts({"": 0})

    def add(self, count: int = 1, value: str = "") -> None:
        """Count something; `value` is that of the label. Values should be few."""
        with self._lock:
            self._counts[value] += count

    def counts(self) -> dict[str, int]:
        """Return the counts by the values of the label."""
        with self._lock:
            return dict(self._counts)

    def to_family(self) -> Family:
        """Return it as it is written."""
        return counter_family(self.name, self.help, self.label, self.counts())


class Registry:
    """What a process counts, by name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: dict[str, Counter] = {}

    def counter(self, name: str, help: str, label: str | None = None) -> Counter:
        """Return the counter of a name; the first call makes it."""
        with self._lock:
            if name not in self._counters:
                self._counters[name] = Counter(name, help, label)
            return self._counters[name]

    def families(self) -> list[Family]:
        """Return all there is."""
        with self._lock:
            counters = list(self._counters.values())
        return [counter.to_family() for counter in counters]

    def to_text(self) -> str:
        """Return it in Prometheus' text format."""
        return to_text(self.families())


PROCESS = Registry()
"""What this process counts, whatever server it may have."""


def counter_family(name: str, help: str, label: str | None, counts: Mapping[str, float]) -> Family:
    """Return a counter, its counts by the values of its label; None: it has no label."""
    samples = [
        (f'{{{label}="{_escape(value)}"}}' if label else "", float(count))
        for value, count in sorted(counts.items())
    ]
    return Family(name, "counter", help, samples)


def to_text(families: Iterable[Family]) -> str:
    """Return figures in Prometheus' text format."""
    lines = []
    for family in families:
        lines.append(f"# HELP {family.name} {family.help}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines += [f"{family.name}{which} {_number(value)}" for which, value in family.samples]
    return "".join(f"{line}\n" for line in lines)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
