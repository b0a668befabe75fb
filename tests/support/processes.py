"""What the system says of a process."""

from __future__ import annotations

import os
from pathlib import Path


__all__ = ["count_descriptors", "count_threads", "memory_bytes"]


def count_descriptors(pid: int | None = None) -> int:
    """Return how many descriptors a process has open; this one by default."""
    return len(os.listdir(f"/proc/{pid or os.getpid()}/fd"))


def count_threads(pid: int | None = None) -> int:
    """Return how many threads a process has."""
    return len(os.listdir(f"/proc/{pid or os.getpid()}/task"))


def memory_bytes(pid: int) -> int:
    """Return how much memory a process occupies."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
