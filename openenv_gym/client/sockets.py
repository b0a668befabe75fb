"""What sockets are asked for, and waiting for one of them."""

from __future__ import annotations

import contextlib
import select
import socket


__all__ = ["IN", "OUT", "enlarge", "poll_socket"]

IN, OUT = getattr(select, "POLLIN", 1), getattr(select, "POLLOUT", 4)
"""Events: there are bytes; there is room for some."""

_UNIX_BUFFER_BYTES = 4 << 20  # asked for; the kernel gives what it may


def enlarge(sock: socket.socket) -> None:
    """Let a Unix socket hold a large message: both sides then wake up less often.

    TCP is left alone, whose buffers grow by themselves unless somebody sets them.
    """
    if hasattr(socket, "AF_UNIX") and sock.family == socket.AF_UNIX:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNIX_BUFFER_BYTES)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _UNIX_BUFFER_BYTES)


def poll_socket(sock: socket.socket, events: int, timeout_s: float) -> bool:
    """Wait until a socket takes or has bytes; tell whether it does."""
    if not hasattr(select, "poll"):  # Windows
        reading, writing = ([sock] if events & mask else [] for mask in (IN, OUT))
        return any(select.select(reading, writing, [], timeout_s))
    poll = select.poll()
    poll.register(sock, events)
    return bool(poll.poll(timeout_s * 1000))
