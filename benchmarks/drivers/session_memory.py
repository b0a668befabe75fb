"""Measures what a server's memory grows by with idle sessions; a round's steps are sessions.

Options: ``wire``, of `wires.WIRES`, and ``sessions``, the most of a round. Each round has a server
of its own, since memory that was used once is not always given back. A first session is open
before the count begins, so that what is loaded once is not counted. Each session has been reset,
and has taken a step. What the kernel keeps for the connections is not the process's, and is left
out.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

from benchmarks.drivers.common import Round, raise_descriptor_limit, serve
from benchmarks.drivers.crowd import Crowd
from benchmarks.drivers.servers import trivial_server
from benchmarks.drivers.wires import WIRES


def start(options: dict[str, Any]) -> Generator[Round, None, None]:
    """Yield the rounds."""
    name, most = options["wire"], options["sessions"] + 1
    raise_descriptor_limit(most)

    def take_round(sessions: int) -> float:
        with trivial_server(name, most) as server, Crowd(server.address, WIRES[name]()) as crowd:
            crowd.grow(1)
            crowd.step(1)
            before = memory_bytes(server.pid)
            crowd.grow(sessions)
            crowd.step(sessions + 1)
            return memory_bytes(server.pid) - before

    yield take_round


def memory_bytes(pid: int) -> int:
    """Return a process's proportional set size (Linux): its share of what several have in common.

    Raises:
        RuntimeError: There is no process without children that can be read.
    """
    if Path(f"/proc/{pid}/task/{pid}/children").read_text():
        raise RuntimeError("the server has child processes, whose memory would be left out")
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/{pid}/smaps_rollup has no line Pss")


if __name__ == "__main__":
    serve(start)
