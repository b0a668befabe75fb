"""TLS in front of a server: ciphertext on one side, and on the other a connection like any other.

A relay stands between an accepted socket and one end of a Unix socket pair, whose other end the
server reads as it reads every socket. So nothing behind it knows of TLS: neither the path of a
step without it, nor a worker process to which the plain end is handed over. Relays run on the
server's own pool, and never block.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable
from http import HTTPStatus

from openenv_gym import errors
from openenv_gym.server.http_messages import HttpResponse
from openenv_gym.server.poller import Event
from openenv_gym.server.pool import Pool


__all__ = ["TlsRelays", "server_context"]

_log = logging.getLogger(__name__)

_READ_BYTES = 256 << 10
_TURN_BYTES = 1 << 20  # from one side at once, then others have their turn
_TLS_WANTED = HttpResponse.of_text(
    HTTPStatus.BAD_REQUEST, "TLS is spoken here: use https:// or wss://."
)
_NO_PROGRESS_S = 60.0  # a client that takes nothing for so long is dropped


def server_context(cert: str | os.PathLike[str], key: str | os.PathLike[str]) -> ssl.SSLContext:
    """Return what a server shows to its clients (TLS 1.2 or newer).

    Args:
        cert: File with the certificate and those that lead to its CA (PEM).
        key: File with the certificate's key, without a password (PEM).

    Raises:
        InvalidOptionError: They cannot be read, or do not belong together.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    for field, path in (("tls_cert", cert), ("tls_key", key)):
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            raise errors.InvalidOptionError(
                f"Cannot read {os.fspath(path)}: {error.strerror}.", field=field
            ) from error
    try:
        # OpenSSL would ask for a password at the terminal.
        context.load_cert_chain(cert, key, password=lambda: b"")
    except (ssl.SSLError, ValueError) as error:
        raise errors.InvalidOptionError(
            f"{os.fspath(cert)} and {os.fspath(key)} are no certificate and its key: {error}.",
            field="tls_cert",
            hint="Expected PEM files, the key without a password.",
        ) from error
    return context


class TlsRelays:
    """The connections of a server that have TLS.

    Args:
        pool: Whose threads run them.
        context: What `server_context` returned.
        handshake_s: Limit of a handshake, and of what a client says after the server's end.
        serve: Takes the plain end of a connection, and where it comes from, after its handshake.
    """

    def __init__(
        self,
        pool: Pool,
        context: ssl.SSLContext,
        *,
        handshake_s: float,
        serve: Callable[[socket.socket, str], None],
    ) -> None:
        self._pool = pool
        self._context = context
        self._handshake_s = handshake_s
        self._serve = serve
        self._relays: set[_Relay] = set()
        self._lock = threading.Lock()
        self._over = False

    def accept(self, sock: socket.socket, peer: str) -> None:
        """Take an accepted socket.

        Raises:
            OSError: There are no descriptors left.
        """
        with self._lock:
            if self._over:  # it was accepted while the server stopped
                sock.close()
                return
            try:
                relay = _Relay(
                    self._pool,
                    self._context,
                    sock,
                    peer,
                    handshake_s=self._handshake_s,
                    begin=lambda plain: self._serve(plain, peer),
                    ended=self._relays.discard,
                )
            except OSError:
                sock.close()
                raise
            self._relays.add(relay)
            relay.start()

    def expire(self, now_s: float) -> None:
        """End connections whose handshake, or whose last bytes, take too long."""
        for relay in self._relays.copy():
            relay.expire(now_s)

    def finish(self) -> None:
        """End all at once, after what the server has said; take no more."""
        with self._lock:
            self._over = True
        for relay in self._relays.copy():
            relay.finish()

    def descriptors(self) -> set[int]:
        """Return what they keep open."""
        return {fd for relay in self._relays.copy() for fd in relay.descriptors()}


class _Relay:
    """One connection with TLS.

    Args:
        pool: Whose threads run it.
        context: What `server_context` returned.
        sock: An accepted socket.
        peer: Where it comes from, for logs.
        handshake_s: Limit of the handshake, and of what a client says after the server's end.
        begin: Takes the plain end, once there is a handshake.
        ended: Called when it is over.
    """

    def __init__(
        self,
        pool: Pool,
        context: ssl.SSLContext,
        sock: socket.socket,
        peer: str,
        *,
        handshake_s: float,
        begin: Callable[[socket.socket], None],
        ended: Callable[[_Relay], None],
    ) -> None:
        sock.setblocking(False)
        self._pool = pool
        self._peer = peer
        self._handshake_s = handshake_s
        self._begin: Callable[[socket.socket], None] | None = begin
        self._ended = ended
        self._outer = sock
        self._inner, self._plain_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._inner.setblocking(False)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._lock = threading.Lock()
        self._to_server = memoryview(b"")
        self._to_client = memoryview(b"")
        self._client_ended = False
        self._server_ended = False
        self._over = False
        self._deadline_s: float | None = time.monotonic() + handshake_s
        self._progress_s = 0.0

    def start(self) -> None:
        """Begin to serve."""
        self._pool.add(self._outer.fileno(), self._on_event)

    def descriptors(self) -> list[int]:
        """Return what it keeps open."""
        return [self._outer.fileno(), self._inner.fileno()]

    def expire(self, now_s: float) -> None:
        """End a connection whose handshake, or whose last bytes, take too long."""
        with self._lock:
            late = self._deadline_s is not None and now_s > self._deadline_s
            stuck = len(self._to_client) > 0 and now_s > self._progress_s + _NO_PROGRESS_S
        if late or stuck:
            if self._begin is not None:
                _log.info(
                    "%s: closed, the TLS handshake took too long",
                    self._peer,
                    extra={"peer": self._peer},
                )
            self._close()

    def finish(self) -> None:
        """End at once, after what the server has said."""
        with self._lock, contextlib.suppress(OSError):
            if not self._over and self._begin is None:
                self._outward()
        self._close()

    # -- events -------------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        begin: Callable[[socket.socket], None] | None = None
        with self._lock:
            if self._over:
                return
            try:
                if self._begin is None or self._shake_hands():
                    if self._begin is not None:
                        begin, self._begin = self._begin, None
                        self._deadline_s = None
                        self._pool.add(self._inner.fileno(), self._on_event)
                    self._inward()
                    self._outward()
                going_on = not (self._client_ended and self._server_ended and not self._to_client)
            except OSError as error:  # ssl.SSLError among them
                if self._begin is not None:
                    _log.info(
                        "%s: no TLS handshake: %s",
                        self._peer,
                        getattr(error, "reason", None) or error,
                        extra={"peer": self._peer},
                    )
                with contextlib.suppress(OSError):
                    self._send_ready()  # which may be an alert
                going_on = False
            if going_on:
                self._arm()
        if not going_on:
            self._close()
        elif begin is not None:
            begin(self._plain_end)

    def _shake_hands(self) -> bool:
        """Go on with the handshake; tell whether it is done."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._send_ready()
                try:
                    data = self._outer.recv(_READ_BYTES)
                except BlockingIOError:
                    return False
                if not data:
                    raise ConnectionResetError("it closed the connection") from None
                self._incoming.write(data)
            except ssl.SSLError as error:
                if error.reason == "HTTP_REQUEST":
                    self._outgoing.write(_TLS_WANTED.to_bytes())
                raise
            else:
                self._send_ready()
                return True

    def _inward(self) -> None:
        """Take what the client says to the server, as long as both go along."""
        read_bytes = 0
        while True:
            if self._to_server:
                try:
                    self._to_server = self._to_server[self._inner.send(self._to_server) :]
                except BlockingIOError:
                    return
                except OSError:  # the server has dropped it
                    self._to_server = memoryview(b"")
                    self._client_ended = True
                continue
            if self._client_ended:
                return
            data = self._decrypt()
            if data is None:
                if read_bytes > _TURN_BYTES:  # nothing is left that only we know of
                    return
                try:
                    encrypted = self._outer.recv(_READ_BYTES)
                except BlockingIOError:
                    return
                read_bytes += len(encrypted)
                if encrypted:
                    if not self._server_ended:  # who says nothing more, hears nothing more
                        self._incoming.write(encrypted)
                    continue
                data = b""
            self._to_server = memoryview(data)
            if not data:
                self._client_ended = True
                with contextlib.suppress(OSError):
                    self._inner.shutdown(socket.SHUT_WR)

    def _decrypt(self) -> bytes | None:
        """Return what is next of what has arrived; nothing at the end; None where more must."""
        if self._server_ended:
            return None
        try:
            return self._tls.read(_READ_BYTES)
        except ssl.SSLWantReadError:
            return None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    def _outward(self) -> None:
        """Take what the server says to the client, as long as both go along."""
        read_bytes = 0
        while self._send_ready() and not self._server_ended and read_bytes <= _TURN_BYTES:
            try:
                data = self._inner.recv(_READ_BYTES)
            except BlockingIOError:
                return
            read_bytes += len(data)
            rest = memoryview(data)
            while rest:
                rest = rest[self._tls.write(rest) :]
            if not data:
                self._server_ended = True
                self._deadline_s = time.monotonic() + self._handshake_s
                with contextlib.suppress(ssl.SSLError):  # the client has yet to agree
                    self._tls.unwrap()
        if self._server_ended and not self._to_client:
            self._outer.shutdown(socket.SHUT_WR)

    def _send_ready(self) -> bool:
        """Send what is encrypted; tell whether nothing is left."""
        while True:
            if not self._to_client:
                self._to_client = memoryview(self._outgoing.read())
                if not self._to_client:
                    return True
                self._progress_s = time.monotonic()
            try:
                sent = self._outer.send(self._to_client)
            except BlockingIOError:
                return False
            self._progress_s = time.monotonic()
            self._to_client = self._to_client[sent:]

    def _arm(self) -> None:
        """Wait for what can be done next; a side from which nothing is wanted is left alone."""
        full = bool(self._to_client)
        reads = not self._client_ended and not self._to_server
        if reads or full:
            self._pool.arm(self._outer.fileno(), read=reads, write=full)
        if self._begin is None:
            reads = not self._server_ended and not full
            waits = bool(self._to_server)
            if reads or waits:
                self._pool.arm(self._inner.fileno(), read=reads, write=waits)

    def _close(self) -> None:
        with self._lock:
            if self._over:
                return
            self._over = True
            for sock in (self._outer, self._inner):
                self._pool.remove(sock.fileno())
                sock.close()
            if self._begin is not None:
                self._plain_end.close()
        self._ended(self)
