"""Ports for servers that are started later, by others."""

from __future__ import annotations

import socket


__all__ = ["reserve_port"]


def reserve_port() -> tuple[socket.socket, int]:
    """Return a port of the loopback interface, and what keeps it from others until it is closed.

    Linux gives it to nobody who asks for any port, or connects. Whoever sets ``SO_REUSEADDR``, as
    servers do, can listen there meanwhile.
    """
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    return kept, int(kept.getsockname()[1])
