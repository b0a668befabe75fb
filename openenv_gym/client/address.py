"""Where a server is, and how to reach it."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from openenv_gym import errors
from openenv_gym.protocol.limits import DIAL_KEY_BYTES


__all__ = [
    "CA_FILE_VARIABLE",
    "Address",
    "ChannelAddress",
    "InboundAddress",
    "Loss",
    "TcpAddress",
    "UnixAddress",
    "explain_tls",
    "no_log",
    "not_lost",
    "parse_base_url",
]


CA_FILE_VARIABLE = "OPENENV_CA_FILE"
"""The environment variable that names the certificates of trusted CAs."""

Loss = Callable[[], errors.ConnectionLostError | None]
"""Tells why a server is gone; None while it runs."""

_KEY_S = 1.0  # so long a server that has connected may take to show its key
_ASK_S = 0.25  # so often it is asked whether a server that is awaited still runs


def not_lost() -> None:
    """Know nothing of a loss: the `Loss` of a server that nobody watches."""


def no_log() -> str:
    """Know no log: that of a server that nobody watches."""
    return ""


class Address(Protocol):
    """A place to connect to."""

    @property
    def uri(self) -> str:
        """``ws://`` or ``wss://`` URI of the handshake."""

    def dial(self, timeout_s: float, why_lost: Loss = not_lost) -> socket.socket:
        """Return a connected socket.

        Args:
            timeout_s: How long to try.
            why_lost: Asked now and then where it takes long; what it returns is raised.

        Raises:
            ServerUnreachableError: Nothing answers.
        """

    def __str__(self) -> str: ...


@dataclass(frozen=True)
class UnixAddress:
    """A server behind a Unix socket."""

    path: str
    uri = "ws://localhost/ws"

    def dial(self, timeout_s: float, why_lost: Loss = not_lost) -> socket.socket:
        """Connect; see `Address`."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        return _connect(sock, self.path, timeout_s, str(self))

    def __str__(self) -> str:
        return f"unix://{self.path}"


@dataclass(frozen=True)
class TcpAddress:
    """A server behind a TCP port, with or without TLS.

    Attributes:
        host: Name or address.
        port: Port.
        tls: It speaks TLS.
        prefix: Path before ``/ws``.
        ca_file: Certificates (PEM) of which one must have signed the server's; None: those that
            the system trusts.
    """

    host: str
    port: int
    tls: bool = False
    prefix: str = ""
    ca_file: str | None = None

    @property
    def uri(self) -> str:
        """URI of the handshake."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'wss' if self.tls else 'ws'}://{host}:{self.port}{self.prefix}/ws"

    def dial(self, timeout_s: float, why_lost: Loss = not_lost) -> socket.socket:
        """Connect; see `Address`."""
        try:
            sock = socket.create_connection((self.host, self.port), timeout_s)
        except OSError as error:
            raise _unreachable(str(self), error) from error
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if not self.tls:
            return sock
        try:
            return self.ssl_context().wrap_socket(sock, server_hostname=self.host)
        except OSError as error:
            sock.close()
            raise explain_tls(str(self), error) from error
        except BaseException:
            sock.close()
            raise

    def ssl_context(self) -> ssl.SSLContext:
        """Return what this side asks of the server's certificate.

        Raises:
            InvalidOptionError: `ca_file` holds no certificates.
        """
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise errors.InvalidOptionError(
                f"{self.ca_file} holds no certificates: {error.strerror or error}.",
                field="ca_file",
                hint="Expected a file in PEM, named by ca_file= or OPENENV_CA_FILE.",
            ) from error

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{self.prefix}"


class ChannelAddress:
    """A server that is handed connected sockets through a channel it inherited.

    So nothing on disk names the server, and nobody else can reach it.

    Args:
        channel: Our end of the channel.
        name: What errors call the server.
        peer: For whom connections are, which the server counts and logs.
    """

    uri = "ws://localhost/ws"

    def __init__(self, channel: socket.socket, name: str, *, peer: str = "") -> None:
        self._channel = channel
        self._name = name
        self._message = b"+" + peer.encode()[:200]
        self._lock = threading.Lock()

    def dial(self, timeout_s: float, why_lost: Loss = not_lost) -> socket.socket:
        """Make a pair of sockets and send one end; see `Address`."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with self._lock, contextlib.closing(theirs):
                socket.send_fds(self._channel, [self._message], [theirs.fileno()])
        except OSError as error:
            ours.close()
            raise _unreachable(str(self), error) from error
        return ours

    def __str__(self) -> str:
        return self._name


class InboundAddress:
    """A server that dials us: it keeps one connection waiting for when we want one.

    So a container reaches its owner through a directory in which it can create, replace or remove
    nothing, and needs no network. Each connection begins with a key that only the server has read:
    other programs in the container can connect as well.

    Args:
        path: Where to listen; the directory decides who can connect. The key is beside it, in
            ``PATH.key``, until the server has shown it.
        name: What errors call the server.

    Raises:
        TransportError: Nothing can listen there.
    """

    uri = "ws://localhost/ws"

    def __init__(self, path: str, name: str) -> None:
        self._path = path
        self._name = name
        self._key = secrets.token_bytes(DIAL_KEY_BYTES)
        self._key_path: str | None = None
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with open(f"{path}.key", "xb") as file:
                self._key_path = f"{path}.key"
                file.write(self._key)
                # The server is another user; the directory keeps others out.
                os.fchmod(file.fileno(), 0o444)
            self._listener.bind(path)
            os.chmod(path, 0o666)
            self._listener.listen(16)
        except OSError as error:
            self._listener.close()
            self._forget_key()
            raise errors.TransportError(
                f"Cannot listen at {path} for {name}: {error.strerror or error}."
            ) from error

    def dial(self, timeout_s: float, why_lost: Loss = not_lost) -> socket.socket:
        """Take the connection that the server has made; see `Address`."""
        end_s = time.monotonic() + timeout_s
        while True:
            sock = self._accept(end_s, why_lost)
            if sock is None:
                raise errors.ServerUnreachableError(
                    f"The server {self._name} did not connect within {timeout_s:.3g} s.",
                    hint="Has it started, and is it still running?",
                )
            if self._shows_key(sock, end_s):
                self._forget_key()
                return sock
            sock.close()
            if (lost := why_lost()) is not None:
                raise lost

    def _accept(self, end_s: float, why_lost: Loss) -> socket.socket | None:
        while True:
            left_s = end_s - time.monotonic()
            if left_s <= 0:  # also where others in the container connect all the time
                return None
            try:
                self._listener.settimeout(max(min(left_s, _ASK_S), 0.001))
                return self._listener.accept()[0]
            except TimeoutError:
                if (lost := why_lost()) is not None:
                    raise lost from None
            except OSError as error:
                raise _unreachable(self._name, error) from error

    def _shows_key(self, sock: socket.socket, end_s: float) -> bool:
        shown = b""
        end_s = min(end_s, time.monotonic() + _KEY_S)
        with contextlib.suppress(OSError):
            while len(shown) < DIAL_KEY_BYTES:
                sock.settimeout(max(end_s - time.monotonic(), 0.001))
                if not (data := sock.recv(DIAL_KEY_BYTES - len(shown))):
                    break
                shown += data
        return secrets.compare_digest(shown, self._key)

    def _forget_key(self) -> None:
        """Remove the file: the server has read it, and nobody else needs to."""
        path, self._key_path = self._key_path, None  # another thread may be dialing, too
        if path is not None:
            with contextlib.suppress(OSError):
                os.unlink(path)

    def close(self) -> None:
        """Stop listening, which tells the server that its owner is gone."""
        self._listener.close()
        self._forget_key()
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    def after_fork(self) -> None:
        """In a forked child: do not keep the parent's server waiting."""
        self._listener.close()

    def __str__(self) -> str:
        return self._name


def parse_base_url(base_url: str, *, ca_file: str | os.PathLike[str] | None = None) -> Address:
    """Read ``http(s)://``, ``ws(s)://`` or ``unix://`` URLs.

    Args:
        base_url: The URL.
        ca_file: Certificates (PEM) that are trusted in place of the system's, where the URL asks
            for TLS; by default the file that ``OPENENV_CA_FILE`` names.

    Raises:
        InvalidOptionError: It is none of these.
    """
    trusted = os.environ.get(CA_FILE_VARIABLE) or None if ca_file is None else os.fspath(ca_file)
    with contextlib.suppress(ValueError):  # brackets that do not match, a port out of range
        parts = urlsplit(str(base_url))
        if parts.scheme == "unix" and (parts.netloc + parts.path):
            return UnixAddress(parts.netloc + parts.path)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.hostname:
            tls = parts.scheme in ("https", "wss")
            prefix = re.sub(r"(/ws)?/*$", "", parts.path)
            port = parts.port or (443 if tls else 80)
            return TcpAddress(parts.hostname, port, tls, prefix, trusted if tls else None)
    raise errors.InvalidOptionError(
        f"{base_url!r:.120} is no address of a server.",
        field="base_url",
        hint="Expected http://host:port, https://host or unix:///path/to/socket.",
    )


def explain_tls(shown: str, error: OSError) -> errors.ServerUnreachableError:
    """Return what it means that no TLS came about."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return errors.CertificateError(
            f"The certificate of the server at {shown} is not trusted: {error.verify_message}.",
            hint="Name the file with its CA (ca_file=, or OPENENV_CA_FILE), and reach it by a name "
            "that its certificate has.",
        )
    if isinstance(error, ssl.SSLError):
        reason = error.reason or error
        return errors.ServerUnreachableError(
            f"The server at {shown} does not agree on TLS: {reason}.",
            hint="Where it speaks none, its address begins with http:// or ws://.",
        )
    return _unreachable(shown, error)


def _connect(sock: socket.socket, target: str, timeout_s: float, shown: str) -> socket.socket:
    sock.settimeout(timeout_s)
    try:
        sock.connect(target)
    except OSError as error:
        sock.close()
        raise _unreachable(shown, error) from error
    return sock


def _unreachable(shown: str, error: OSError) -> errors.ServerUnreachableError:
    hint = "Start the server, or check the address."
    if error.errno in (errno.EACCES, errno.EPERM):
        hint = "The socket belongs to another user."
    return errors.ServerUnreachableError(
        f"No server answers at {shown}: {error.strerror or error}.", hint=hint
    )
