"""Where connections come in: sockets that listen, and channels that bring connected ones."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import socket
import time
from collections.abc import Callable

from openenv_gym.server.listening import open_tcp, open_unix
from openenv_gym.server.peers import peer_of
from openenv_gym.server.poller import Event
from openenv_gym.server.pool import Pool


__all__ = ["Doors"]

_log = logging.getLogger("openenv_gym.server.server")

_ACCEPT_AT_ONCE = 64
_WARN_S = 10.0  # so often at most
_MAX_NAME_BYTES = 256


Adopt = Callable[[socket.socket, str], None]
"""Takes a connected socket, and the name of who is at its other end."""


class Doors:
    """All the ways in to one server.

    Args:
        pool: Watches them.
        adopt: Serves who came in.
        adopt_tcp: Likewise for those who came by TCP, which may be encrypted.
    """

    def __init__(self, pool: Pool, adopt: Adopt, *, adopt_tcp: Adopt) -> None:
        self._pool = pool
        self._adopt = adopt
        self._adopt_tcp = adopt_tcp
        self._sockets: list[socket.socket] = []
        self._paths: list[str] = []
        self._next_warning_s = 0.0

    def listen_tcp(self, host: str, port: int, *, exposed: bool) -> tuple[str, int]:
        """Listen on a TCP port (0: any free one) and return the address.

        Args:
            host: Name or address of an interface.
            port: The port.
            exposed: Others than this machine may connect.

        Raises:
            InvalidOptionError: Others could, and it is not exposed.
            AddressInUseError: The port is taken.
        """
        listener = open_tcp(host, port, exposed=exposed)
        self._listen(listener)
        bound = listener.getsockname()
        return bound[0], bound[1]

    def listen_unix(self, path: str) -> None:
        """Listen on a Unix socket that its owner alone may use; a stale one is replaced.

        Raises:
            AddressInUseError: Somebody listens there, or the path is not a socket.
        """
        self._listen(open_unix(path))
        self._paths.append(path)

    def open_channel(self, channel: socket.socket, ended: Callable[[], None]) -> None:
        """Take the sockets that come through a channel, one with each message (``SCM_RIGHTS``).

        A message is a byte, and the name of who is at the socket's other end, where it is told.

        Args:
            channel: A ``SOCK_SEQPACKET`` or datagram socket; it is closed with the others.
            ended: Called when nobody holds its other end any more.
        """
        channel.setblocking(False)
        self.add(channel, functools.partial(self._receive, channel, ended))

    def add(self, sock: socket.socket, on_event: Callable[[Event], None]) -> None:
        """Watch a socket that others understand; it is closed with the others."""
        self._sockets.append(sock)
        self._pool.add(sock.fileno(), on_event)

    def close(self) -> None:
        """Close them all, and free their addresses."""
        for sock in self._sockets:
            self._pool.remove(sock.fileno())
            sock.close()
        for path in self._paths:
            with contextlib.suppress(OSError):
                os.unlink(path)

    def descriptors(self) -> set[int]:
        """Return their descriptors."""
        return {sock.fileno() for sock in self._sockets}

    # -- events -------------------------------------------------------------------------------

    def _listen(self, listener: socket.socket) -> None:
        self.add(listener, functools.partial(self._accept, listener))

    def _accept(self, listener: socket.socket, event: Event) -> None:
        try:
            for _ in range(_ACCEPT_AT_ONCE):
                sock, address = listener.accept()
                if sock.family == socket.AF_UNIX:
                    self._adopt(sock, peer_of(address))
                    continue
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                self._adopt_tcp(sock, peer_of(address))
        except BlockingIOError:
            pass
        except OSError as error:
            if listener.fileno() < 0:
                return
            if time.monotonic() > self._next_warning_s:
                self._next_warning_s = time.monotonic() + _WARN_S
                _log.warning("Cannot accept connections: %s", error)
            time.sleep(0.05)  # out of descriptors: do not spin
        with contextlib.suppress(OSError, ValueError):
            self._pool.arm(listener.fileno())

    def _receive(self, channel: socket.socket, ended: Callable[[], None], event: Event) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(channel, _MAX_NAME_BYTES, 4)
        except BlockingIOError:
            data, descriptors = b"x", []
        except OSError:
            data, descriptors = b"", []
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
            peer = data[1:].decode(errors="replace") or "channel"
            self._adopt(socket.socket(fileno=descriptor), peer)
        if not data:
            _log.info("The owner is gone")
            ended()
            return
        self._pool.arm(channel.fileno())
