"""Paths of Unix sockets."""

from __future__ import annotations

import os
import socket
import stat

from openenv_gym import errors


__all__ = ["remove_stale"]


def remove_stale(path: str) -> None:
    """Remove a socket on which nobody listens.

    Raises:
        AddressInUseError: Somebody does, or the path is something else.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISSOCK(mode):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1.0)
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                os.unlink(path)
                return
            except OSError:
                pass
    raise errors.AddressInUseError(
        f"Cannot listen on {path}: the path is in use.",
        hint="Stop the other server, or choose another path.",
    )
