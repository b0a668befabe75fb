"""Servers of the trivial environment, each a process of its own on this machine's TCP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.drivers.common import child


__all__ = ["Server", "trivial_server"]


@dataclass(frozen=True)
class Server:
    """A server that runs.

    Attributes:
        address: ``http://host:port``.
        pid: Its process.
    """

    address: str
    pid: int


@contextmanager
def trivial_server(wire: str, sessions: int) -> Iterator[Server]:
    """Run the server of a wire for so many sessions, and end it.

    Yields:
        It, when it is ready.
    """
    arguments = {
        "openenv-gym": ("gymnasium_server", str(sessions)),
        "openenv": ("openenv_server", "trivial", str(sessions)),
    }[wire]
    with child(*arguments) as (ready, pid):
        yield Server(ready.split()[-1], pid)
