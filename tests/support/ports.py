"""Ports for servers that run in processes of their own and are told their number."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


__all__ = ["reserved_port"]


@contextlib.contextmanager
def reserved_port(host: str = "127.0.0.1") -> Iterator[int]:
    """Keep a free TCP port for one server until the context is left.

    It is bound, and nobody listens. So the system gives it to no other test that asks for any port,
    to no connection either; who asks for this number gets it, as servers do: with
    ``SO_REUSEADDR``.

    Args:
        host: Address of the interface.
    """
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind((host, 0))
        yield int(kept.getsockname()[1])
