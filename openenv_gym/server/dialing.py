"""Connections that a server makes, to an owner who listens (docs/protocol.md, section 1)."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openenv_gym import errors


__all__ = ["OwnerDialer"]

_log = logging.getLogger(__name__)


class OwnerDialer:
    """Keeps one connection waiting for the owner.

    Args:
        path: Unix socket on which he listens; his key is beside it.
        adopt: Serves a connection: `Server.adopt`.
        gone: Called when he does not listen any more.
    """

    def __init__(self, path: str, adopt: Callable[..., Any], gone: Callable[[], None]) -> None:
        self._path = path
        self._adopt = adopt
        self._gone = gone
        self._key = b""

    def begin(self) -> None:
        """Make the first connection.

        Raises:
            TransportError: He does not listen there, or left no key.
        """
        try:
            self._key = Path(f"{self._path}.key").read_bytes()
            self._dial()
        except OSError as error:
            raise errors.TransportError(
                f"Cannot reach the owner at {self._path}: {error.strerror}."
            ) from error

    def _dial(self) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(self._path)
            sock.sendall(self._key)
        except OSError:
            sock.close()
            raise
        self._adopt(sock, "owner", first_bytes=self._dial_again)

    def _dial_again(self) -> None:
        try:
            self._dial()
        except OSError:
            _log.info("The owner is gone")
            self._gone()
