"""What a connection has to send and could not yet."""

from __future__ import annotations

import socket
import time
from collections import deque


__all__ = ["Outbox"]

_CONGESTED_BYTES = 1 << 20  # with more than this unsent, nothing is read and no request begins
_PARTS = 64  # that many at once; the system takes a thousand


class Outbox:
    """Bytes for one socket, in order; whoever uses it holds the connection's lock.

    Args:
        sock: A non-blocking socket.

    Attributes:
        size_bytes: What waits to be sent.
        congested: That is so much that no more should be produced.
        progress_s: When the peer last took something, on the monotonic clock.
        sent_bytes: What it has taken in all.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._parts: deque[memoryview] = deque()
        self.size_bytes = 0
        self.congested = False  # not computed: each step asks several times
        self.progress_s = 0.0
        self.sent_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def send(self, parts: list[bytes | memoryview]) -> bool:
        """Send what leaves at once, and keep the rest; tell whether there is any.

        A broken connection shows when it is read.
        """
        if not self._parts:
            try:
                if len(parts) == 1:
                    sent = self._socket.send(parts[0])
                    self.sent_bytes += sent
                    if sent == len(parts[0]):
                        return False
                else:
                    sent = self._socket.sendmsg(parts)
                    self.sent_bytes += sent
            except BlockingIOError:
                sent = 0
            except OSError:
                return False
            parts = _rest(parts, sent)
            if not parts:
                return False
            self.progress_s = time.monotonic()
        # What could not leave at once is copied: it may point into arrays that will change.
        for part in parts:
            self._parts.append(memoryview(bytes(part)))
            self._resize(self.size_bytes + len(part))
        return True

    def flush(self) -> None:
        """Send what leaves now."""
        while self._parts:
            try:
                sent = self._socket.sendmsg(list(self._parts)[:_PARTS])
            except BlockingIOError:
                return
            except OSError:
                self.clear()
                return
            self._resize(self.size_bytes - sent)
            self.sent_bytes += sent
            self.progress_s = time.monotonic()
            while sent:
                first = self._parts[0]
                if sent < len(first):
                    self._parts[0] = first[sent:]
                    break
                sent -= len(first)
                self._parts.popleft()

    def clear(self) -> None:
        """Forget all of it."""
        self._parts.clear()
        self._resize(0)

    def _resize(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.congested = size_bytes > _CONGESTED_BYTES


def _rest(parts: list[bytes | memoryview], sent: int) -> list[bytes | memoryview]:
    """Return what is left of some buffers after this many bytes."""
    for index, part in enumerate(parts):
        size = len(part)
        if sent < size:
            return [memoryview(part)[sent:], *parts[index + 1 :]]
        sent -= size
    return []
