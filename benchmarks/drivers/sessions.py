"""Drives many sessions of one server at once; a step of a round is a step of one of them.

Options: ``wire``, of `wires.WIRES`, and ``sessions``.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from benchmarks.drivers.common import Round, raise_descriptor_limit, serve
from benchmarks.drivers.crowd import Crowd
from benchmarks.drivers.servers import trivial_server
from benchmarks.drivers.wires import WIRES


def start(options: dict[str, Any]) -> Generator[Round, None, None]:
    """Start the server, open the sessions, and yield the rounds."""
    name, sessions = options["wire"], options["sessions"]
    raise_descriptor_limit(sessions)
    with trivial_server(name, sessions) as server, Crowd(server.address, WIRES[name]()) as crowd:
        crowd.grow(sessions)
        yield crowd.step


if __name__ == "__main__":
    serve(start)
