"""TCP ports of this machine that nobody else gets meanwhile."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


__all__ = ["keep_port", "reserved_port"]


def keep_port() -> tuple[socket.socket, int]:
    """Return a port of the loopback interface, and what keeps it until it is closed.

    It is bound, and nobody listens. Who asks the system for any port, or connects, gets another
    one; who names this one, with ``SO_REUSEADDR`` as servers do, may listen there.
    """
    keeper = socket.socket()
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    keeper.bind(("127.0.0.1", 0))
    return keeper, int(keeper.getsockname()[1])


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """Keep a port until the context is left: for one server, or for nobody to listen there."""
    keeper, port = keep_port()
    with keeper:
        yield port
