"""Connections that a worker is handed by its supervisor."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

from openenv_gym.server.connection import Connection
from openenv_gym.server.http import Call, Upgrade
from openenv_gym.server.site import ConnectionState
from openenv_gym.server.workers.grants import Grant, Grants


if TYPE_CHECKING:
    from openenv_gym.server.server import Server

__all__ = ["HandedConnection", "HandedRequest"]


class _Handed(Connection):
    """See `Connection`."""

    def _drop(self) -> None:
        with contextlib.suppress(OSError):  # for a supervisor that watches it holds it open, too
            self.socket.shutdown(socket.SHUT_RDWR)
        super()._drop()


class HandedConnection(_Handed):
    """A connection that has shaken hands with the supervisor.

    Args:
        server: Whom it belongs to.
        sock: Its socket.
        peer: Where it comes from, for logs.
        read: What it has said since the handshake.
    """

    def __init__(self, server: Server, sock: socket.socket, peer: str, read: bytes) -> None:
        super().__init__(server, sock, peer)
        self.state = ConnectionState.HELLO
        self._said = read

    def _read(self) -> None:
        said, self._said = self._said, b""
        if said:
            self._reader.attach(said)
            self._take_all()
        super()._read()


class HandedRequest(_Handed):
    """A connection that has made an HTTP request, which the supervisor has let in.

    Args:
        server: Whom it belongs to.
        sock: Its socket.
        peer: Where it comes from, for logs.
        read: The request, and what followed it; nothing where it has yet to be made.
        grants: Where sessions look for the place that they may use.
        grant: The place that the request may use, if it may use one.
    """

    def __init__(
        self,
        server: Server,
        sock: socket.socket,
        peer: str,
        read: bytes,
        grants: Grants,
        grant: Grant | None,
    ) -> None:
        super().__init__(server, sock, peer)
        self._said = read
        self._grants = grants
        self._grant = grant

    def _read(self) -> None:
        said, self._said = self._said, b""
        if said:
            self._hear_http(said)
        else:
            super()._read()

    def _answer(self, call: Call) -> None:
        with self._grants.using(self._grant):
            super()._answer(call)

    def _upgrade(self, answer: Upgrade, rest: bytes) -> None:
        with self._grants.using(self._grant):
            super()._upgrade(answer, rest)

    def _drop(self) -> None:
        super()._drop()
        if self._grant is not None:
            self._grant.end()
