"""A load generator: thousands of sessions of one server, each with one request in flight.

One thread, one `epoll`, plain sockets, and the least of WebSocket (RFC 6455) that a client needs;
so that it is the server that is measured, and the same generator for every server. What is said
is the business of a `Wire`.
"""

from __future__ import annotations

import base64
import os
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from types import TracebackType
from urllib.parse import urlsplit

from benchmarks.drivers.wires import Wire


__all__ = ["Crowd", "CrowdError"]

_CLOSE, _PING, _PONG = 8, 9, 10
_RECEIVE_BYTES = 1 << 16
_WAIT_S = 60.0  # no reply of any session takes longer


class CrowdError(Exception):
    """A server hung up, was silent, or spoke something else than WebSocket."""


class Crowd:
    """Sessions on one server.

    Args:
        address: ``http://host:port``.
        wire: What is said.
    """

    def __init__(self, address: str, wire: Wire) -> None:
        self._address = address
        self._wire = wire
        self._sessions: list[_Session] = []
        self._by_fd: dict[int, _Session] = {}
        self._epoll = select.epoll()

    def grow(self, count: int) -> None:
        """Open so many sessions more, and reset each, one after the other.

        Raises:
            CrowdError: One could not be opened.
        """
        for _ in range(count):
            session = _Session(self._address, self._wire)
            self._sessions.append(session)
            self._by_fd[session.fileno()] = session
            self._epoll.register(session.fileno(), select.EPOLLIN)

    def step(self, steps: int) -> float:
        """Take so many steps in all, each session as many as the others, or one more.

        Every session has one request in flight until it has taken its share.

        Returns:
            Seconds from the first request to the last reply.

        Raises:
            CrowdError: A server did not answer.
            WrongReply: It answered something else than it must.
        """
        share, more = divmod(steps, len(self._sessions))
        begin = perf_counter()
        for index, session in enumerate(self._sessions):
            session.due = share + (index < more)
            if session.due:
                session.send_step()
        replies = 0
        while replies < steps:
            events = self._epoll.poll(_WAIT_S, len(self._sessions))
            if not events:
                raise CrowdError(f"no reply for {_WAIT_S:g} s; {steps - replies} are missing")
            for fd, _ in events:
                replies += self._by_fd[fd].on_readable()
        return perf_counter() - begin

    def close(self) -> None:
        """Hang up everywhere."""
        for session in self._sessions:
            session.close()
        self._epoll.close()

    def __enter__(self) -> Crowd:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class _Session:
    """One connection, its session opened and reset.

    Attributes:
        due: Replies that this round still needs of it.
    """

    def __init__(self, address: str, wire: Wire) -> None:
        self.due = 0
        self._wire = wire
        self._number = 0
        self._received = b""
        url = urlsplit(address)
        self._sock = socket.create_connection((url.hostname, url.port or 80), _WAIT_S)
        with self._closed_on_error():
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._shake_hands(url.netloc)
            for message, expected in wire.openings():
                self._send(message)
                while (payload := self._next_message()) is None:
                    self._receive()
                if (kind := wire.kind(payload)) != expected:
                    raise CrowdError(f"expected {expected}, got {kind}: {payload!r:.300}")
            self._sock.setblocking(False)

    def fileno(self) -> int:
        """Return the descriptor of the connection."""
        return self._sock.fileno()

    def close(self) -> None:
        """Hang up."""
        self._sock.close()

    def send_step(self) -> None:
        """Send the next step's request."""
        self._number += 1
        self._send(self._wire.step(self._number))

    def on_readable(self) -> bool:
        """Take what has arrived; tell whether it was the reply, and go on where steps are due.

        Raises:
            CrowdError: The server hung up.
            WrongReply: The reply is not what it must be.
        """
        self._receive()
        payload = self._next_message()
        if payload is None:
            return False
        self._wire.check(self._number, payload)
        self.due -= 1
        if self.due:
            self.send_step()
        return True

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _shake_hands(self, host: str) -> None:
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            "GET /ws HTTP/1.1",
            f"Host: {host}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
        ]
        if self._wire.subprotocol:
            lines.append(f"Sec-WebSocket-Protocol: {self._wire.subprotocol}")
        self._sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        while b"\r\n\r\n" not in self._received:
            self._receive()
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101"):
            raise CrowdError(f"no WebSocket: {head!r:.300}")

    def _send(self, payload: bytes, opcode: int | None = None) -> None:
        size = len(payload)
        first = 0x80 | (self._wire.opcode if opcode is None else opcode)
        header = (
            bytes((first, 0x80 | size))
            if size < 126
            else b"%c\xfe%c%c" % (first, size >> 8, size & 0xFF)
        )
        # The mask is four zeros, which leave the payload as it is: a server unmasks in any case.
        frame = header + b"\0\0\0\0" + payload
        if self._sock.send(frame) != len(frame):
            raise CrowdError("the server takes no more requests")

    def _receive(self) -> None:
        data = self._sock.recv(_RECEIVE_BYTES)
        if not data:
            raise CrowdError(f"the server hung up, after {self._number} steps")
        self._received += data

    def _next_message(self) -> bytes | None:
        """Return a whole message that has arrived; answer pings that came before it."""
        while (frame := self._next_frame()) is not None:
            opcode, payload = frame
            if opcode == _PING:
                self._send(payload, _PONG)
            elif opcode == _CLOSE:
                raise CrowdError(f"the server closed the connection: {payload!r:.300}")
            elif opcode != _PONG:
                return payload
        return None

    def _next_frame(self) -> tuple[int, bytes] | None:
        received = self._received
        if len(received) < 2:
            return None
        first, size = received[0], received[1]
        begin = 2
        if size >= 126:
            begin = 4 if size == 126 else 10
            size = int.from_bytes(received[2:begin], "big")
        end = begin + size
        if len(received) < begin or len(received) < end:
            return None
        if not first & 0x80:
            raise CrowdError("a reply came in fragments, which are not expected here")
        self._received = received[end:]
        return first & 0x0F, received[begin:end]
