"""The sending half of a connection, and its end."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from abc import ABC, abstractmethod

from openenv_gym.server.outbox import Outbox
from openenv_gym.server.site import ConnectionState, Site


__all__ = ["Stream"]

_log = logging.getLogger(__name__)

# What does not fit waits for another turn, copied; the system takes as much of this as it allows.
_SEND_BUFFER_BYTES = 8 << 20
_DISCARD_BYTES = 256 << 10  # of what comes after the end, at once
_NO_PROGRESS_S = 60.0  # a client that takes nothing for so long is dropped; it may resume


class Stream(ABC):
    """A socket that is written without ever waiting for its peer.

    Args:
        server: Whom it belongs to.
        sock: A connected socket.
        peer: Where it comes from, for logs.

    Attributes:
        state: What it waits for.
        peer: As above.
        site: The server.
        socket: The socket.
        deadline_s: When the state is over at the latest, on the clock of `time.monotonic`.
    """

    def __init__(self, server: Site, sock: socket.socket, peer: str) -> None:
        sock.setblocking(False)
        if sock.family == socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        self.state = ConnectionState.HTTP
        self.peer = peer
        self.site = server
        self.socket = sock
        self.deadline_s = time.monotonic() + server.limits.handshake_timeout_s
        self._fd = sock.fileno()
        self._writing = threading.Lock()
        self._outbox = Outbox(sock)
        self._lingers = False

    def fileno(self) -> int:
        """Descriptor of the socket."""
        return self.socket.fileno()

    @property
    def sent_bytes(self) -> int:
        """What the peer took, in all."""
        return self._outbox.sent_bytes

    def _note(self, text: str) -> None:
        """Log something about this connection."""
        _log.info("%s: %s", self.peer, text, extra=self._facts())

    def _facts(self) -> dict[str, str]:
        """Return what a log says beside its text."""
        return {"peer": self.peer}

    def _become(self, state: ConnectionState) -> None:
        """Wait for something else, unless another thread has closed it meanwhile."""
        with self._writing:
            if self.state is not ConnectionState.CLOSED:
                self.state = state

    # -- what is read and what becomes of it is the connection's business -----------------------

    @abstractmethod
    def _listens(self) -> bool:
        """What comes is read."""

    @abstractmethod
    def _has_room(self) -> None:
        """Note that the peer has taken so much that more may be produced."""

    @abstractmethod
    def _dropped(self) -> None:
        """Note that the socket is closed."""

    # -- output -------------------------------------------------------------------------------

    def _send(self, parts: list[bytes | memoryview]) -> None:
        with self._writing:
            if self.state is ConnectionState.CLOSED:
                return
            if self._outbox.send(parts):
                self.site.pool.arm(self._fd, read=not self.congested, write=True)

    def _flush(self) -> None:
        with self._writing:
            was_congested = self.congested
            self._outbox.flush()
            closing = self.state is ConnectionState.CLOSING and not self._outbox
            has_room = was_congested and not self.congested
        if closing:
            self._hang_up()
        if has_room:
            self._has_room()

    @property
    def congested(self) -> bool:
        """So much waits to be sent that no more should be produced."""
        return self._outbox.congested

    def _arm(self) -> None:
        with self._writing:
            if self.state is not ConnectionState.CLOSED:
                reads = not self.congested and (
                    self.state is ConnectionState.CLOSING or self._listens()
                )
                self.site.pool.arm(self._fd, read=reads, write=bool(self._outbox))

    def _expire_output(self, now_s: float) -> None:
        if self._outbox and now_s > self._outbox.progress_s + _NO_PROGRESS_S:
            self._note("dropped, it takes nothing")
            self._drop()

    # -- end ----------------------------------------------------------------------------------

    def _finish(self, *, linger: bool = False) -> None:
        """Close once everything has left.

        Args:
            linger: The peer may still be sending. Closing a socket that holds what nobody read
                resets the connection, and takes our last words from who has not read them yet.
        """
        with self._writing:
            if self.state is ConnectionState.CLOSED:
                return
            self._lingers = linger
            waiting = bool(self._outbox)
            if waiting or linger:
                self.state = ConnectionState.CLOSING
                self.deadline_s = time.monotonic() + self.site.limits.handshake_timeout_s
        if not waiting:
            self._hang_up()

    def _hang_up(self) -> None:
        """Say nothing more; everything has left."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)
        if self._lingers:
            self._arm()  # until the peer has hung up, too, or the time is over
        else:
            self._drop()

    def _discard(self) -> None:
        """Read what still comes, until the peer has hung up."""
        if not self.socket.recv(_DISCARD_BYTES):
            self._drop()

    def _drop(self) -> None:
        with self._writing:
            if self.state is ConnectionState.CLOSED:
                return
            self.state = ConnectionState.CLOSED
            self._outbox.clear()
            self.site.pool.remove(self._fd)
            self.socket.close()
        self._dropped()
