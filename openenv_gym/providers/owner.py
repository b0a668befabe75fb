"""Which process something was made for, so that others can tell whether that still runs."""

from __future__ import annotations

import functools
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from openenv_gym.providers.guardian import birth_of


__all__ = ["Owner"]


@dataclass(frozen=True)
class Owner:
    """A process, told from every other one, on whatever machine.

    Attributes:
        pid: Its number.
        birth: When it began, in clock ticks since the machine was started.
        place: Boot of the machine and the space in which the number counts: only there can
            somebody else tell whether it still runs.
    """

    pid: int
    birth: str
    place: str

    @classmethod
    def current(cls) -> Owner:
        """Return this process."""
        return cls(os.getpid(), birth_of(os.getpid()), _place())

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """Read what ``str`` gives; None where it is nothing of the kind."""
        pid, _, rest = text.partition(":")
        birth, _, place = rest.partition(":")
        return cls(int(pid), birth, place) if pid.isdigit() and place else None

    def lives(self) -> bool | None:
        """Tell whether it still runs; None where that cannot be known here."""
        if self.place != _place():
            return None
        return birth_of(self.pid) == self.birth

    def __str__(self) -> str:
        return f"{self.pid}:{self.birth}:{self.place}"


@functools.cache
def _place() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{os.readlink('/proc/self/ns/pid')}"
    except OSError:  # not Linux: one space, and the daemon has no other customers' processes
        return socket.gethostname()
