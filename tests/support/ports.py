"""TCP ports of this machine that nobody else gets meanwhile."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


__all__ = ["keep_port", "refusing_port"]


def keep_port() -> tuple[socket.socket, int]:
    """Return a port for a program that is told where to listen, and what keeps it until closed.

    Who asks the system for any port gets another one; who names this one, with ``SO_REUSEADDR``
    as servers do, may listen there.
    """
    keeper = socket.socket()
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    keeper.bind(("127.0.0.1", 0))
    return keeper, keeper.getsockname()[1]


@contextlib.contextmanager
def refusing_port() -> Iterator[int]:
    """Give a port where nobody listens."""
    keeper, port = keep_port()
    with keeper:
        yield port
