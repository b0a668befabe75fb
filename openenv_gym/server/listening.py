"""Sockets on which a server listens, and who may be let near them."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from enum import Enum
from typing import Any

from openenv_gym import errors
from openenv_gym.server.unix_paths import remove_stale


__all__ = ["EXPOSURE_VARIABLE", "Exposure", "open_tcp", "open_unix"]

EXPOSURE_VARIABLE = "OPENENV_EXPOSURE"
"""The environment variable that declares the exposure of a process."""

_BACKLOG = 4096


class Exposure(str, Enum):
    """Who can reach a server that asks for no token: a declaration, not a setting of the network.

    Without one, such a server listens on the loopback interface and on Unix sockets alone.
    """

    CONTAINER = "container"
    """What is around the process decides: a container whose ports its provider, or whoever started
    it, has published or not."""
    PUBLIC = "public"
    """Everybody, as in a Hugging Face Space. The bounds of a server that was started by command are
    narrower then (docs/operations.md)."""

    @classmethod
    def of_process(cls) -> Exposure | None:
        """Return the exposure that ``OPENENV_EXPOSURE`` declares; None where it declares none.

        Raises:
            InvalidOptionError: It is none.
        """
        name = os.environ.get(EXPOSURE_VARIABLE, "").strip().lower()
        try:
            return cls(name) if name else None
        except ValueError:
            raise errors.InvalidOptionError(
                f"{EXPOSURE_VARIABLE}={name!r}: expected "
                f"{' or '.join(each.value for each in cls)}.",
                field=EXPOSURE_VARIABLE,
            ) from None


def open_tcp(host: str, port: int, *, exposed: bool) -> socket.socket:
    """Return a socket that listens on a TCP port (0: any free one).

    Args:
        host: Address or name of an interface.
        port: The port.
        exposed: Others than this machine may connect: there is a token, or a declaration.

    Raises:
        InvalidOptionError: They may not, and they could.
        AddressInUseError: The port is taken.
        TransportError: Nothing can listen there.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    shown = f"{host}:{port}"
    _bind(listener, (host, port), shown)
    # Names are resolved by now, and nobody can connect yet.
    if not exposed and not ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
        listener.close()
        raise errors.InvalidOptionError(
            f"Will not listen on {shown}: others than this machine could connect, and no token is "
            "asked for.",
            field="host",
            hint=f"Set a token (--token-file, or OPENENV_TOKEN_FILE); or say who can reach the "
            f"server: --exposure container (its container decides) or public (everybody), or "
            f"{EXPOSURE_VARIABLE}; or listen on 127.0.0.1.",
        )
    _listen(listener, shown)
    return listener


def open_unix(path: str) -> socket.socket:
    """Return a socket that listens at a path which its owner alone may use; a stale one goes.

    Raises:
        AddressInUseError: Somebody listens there, or the path is not a socket.
        TransportError: Nothing can listen there.
    """
    remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        _bind(listener, path, path)
    finally:
        os.umask(before)
    _listen(listener, path)
    return listener


def _bind(listener: socket.socket, address: Any, shown: str) -> None:
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise _refused(error, shown) from error


def _listen(listener: socket.socket, shown: str) -> None:
    try:
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise _refused(error, shown) from error


def _refused(error: OSError, shown: str) -> errors.TransportError:
    if error.errno == errno.EADDRINUSE:
        return errors.AddressInUseError(
            f"Cannot listen on {shown}: the address is in use.",
            hint="Stop the other server, or choose another port or path.",
        )
    return errors.TransportError(f"Cannot listen on {shown}: {error.strerror}.")
