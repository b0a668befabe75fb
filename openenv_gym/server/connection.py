"""One connection to a server: bytes in, messages to their session, bytes out."""

from __future__ import annotations

import contextlib
import logging
import math
import socket
import threading
import time
from collections.abc import Callable, Sequence

from openenv_gym import errors
from openenv_gym.protocol.codec import decode_packet, encode_packet
from openenv_gym.protocol.frames import (
    CloseCode,
    Message,
    MessageReader,
    Opcode,
    decode_close,
    encode_close,
    encode_frame,
)
from openenv_gym.protocol.limits import SHARED_MEMORY
from openenv_gym.protocol.messages import (
    Ack,
    Cancel,
    Failure,
    Hello,
    Request,
    Share,
    error_to_wire,
    read_client_message,
)
from openenv_gym.server.http import MAX_HEAD_BYTES
from openenv_gym.server.outbox import Outbox
from openenv_gym.server.poller import Event
from openenv_gym.server.session import Session
from openenv_gym.server.shared_memory import Descriptor, can_share, map_memory
from openenv_gym.server.site import ConnectionState, Site


__all__ = ["Connection"]

_log = logging.getLogger(__name__)

Work = Callable[[], None]

_MAX_HELLO_BYTES = 1 << 20
# What does not fit waits for another turn, copied; the system takes as much of this as it allows.
_SEND_BUFFER_BYTES = 8 << 20
_NO_PROGRESS_S = 60.0  # a client that takes nothing for so long is dropped; it may resume


class Connection:
    """State of one connection; `on_event` is called by one thread of the pool at a time.

    Args:
        server: Whom it belongs to.
        sock: An accepted socket.
        peer: Where it comes from, for logs.
        first_bytes: Called when the peer begins to speak, or hangs up; it may take its time.

    Attributes:
        state: What it waits for.
        peer: As above.
        deadline_s: When the state is over at the latest, on the clock of `time.monotonic`.
        shares: The client may send SHARE.
    """

    def __init__(
        self,
        server: Site,
        sock: socket.socket,
        peer: str,
        *,
        first_bytes: Callable[[], None] | None = None,
    ) -> None:
        sock.setblocking(False)
        if sock.family == socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        self.state = ConnectionState.HTTP
        self.peer = peer
        self.deadline_s = time.monotonic() + server.limits.handshake_timeout_s
        self._first_bytes = first_bytes
        if first_bytes is not None:
            self.deadline_s = math.inf
        self._server = server
        self._socket = sock
        self._fd = sock.fileno()
        self._head = bytearray()
        self._reader = MessageReader(
            max_message_bytes=min(_MAX_HELLO_BYTES, server.limits.max_frame_bytes),
            peer_masks=True,
        )
        self._work: list[Work] = []
        self._session: Session | None = None
        self._reading = threading.Lock()
        self._writing = threading.Lock()
        self._outbox = Outbox(sock)
        self.shares = False
        # Between WELCOME and the first request, where the client may share memory.
        self._descriptor: Descriptor | None = None

    # -- events -------------------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """Read what is there, arm the socket again, then do the work that it asked for."""
        with self._reading:
            if self.state is ConnectionState.CLOSED:
                return
            try:
                if event.writable:
                    self._flush()
                if event.readable:
                    self._read()
            except errors.OpenEnvGymError as error:
                self._reject(error)
            except OSError:
                self._drop()
            finally:
                # What was taken is done, whatever became of the connection since.
                work, self._work = self._work, []
                self._arm()
        for each in work:
            self._server.pool.run(each)

    def fileno(self) -> int:
        """Descriptor of the socket."""
        return self._socket.fileno()

    def expire(self, now_s: float) -> None:
        """Close a connection whose handshake, or whose last bytes, take too long."""
        if self._outbox and now_s > self._outbox.progress_s + _NO_PROGRESS_S:
            _log.info("%s: dropped, it takes nothing", self.peer)
            self._drop()
        waits = (ConnectionState.HTTP, ConnectionState.HELLO, ConnectionState.CLOSING)
        if self.state in waits and now_s > self.deadline_s:
            _log.info("%s: closed, %s took too long", self.peer, self.state.value)
            if self.state is ConnectionState.HELLO:
                self._send(
                    encode_frame(
                        Opcode.CLOSE, [encode_close(1008, "no HELLO in time")], masked=False
                    )
                )
            self._drop()

    def _read(self) -> None:
        if self.state is ConnectionState.HTTP:
            self._read_http()
            return
        reader, sock = self._reader, self._socket
        if self.state is ConnectionState.CLOSING:
            if not sock.recv(65536):
                self._drop()
            return
        while self._listens() and not self.congested:
            buffer = reader.buffer()
            try:
                if self._descriptor is None:
                    count = sock.recv_into(buffer)
                else:
                    count = self._descriptor.receive(sock, buffer)
            except BlockingIOError:
                return
            reader.received(count)
            self._take_all()
            if count == 0:
                self._drop()
            elif count < len(buffer):
                return  # nothing more is there

    def _take_all(self) -> None:
        while self._listens() and (message := self._reader.next()) is not None:
            self._take(message)

    def _listens(self) -> bool:
        return self.state not in (ConnectionState.CLOSING, ConnectionState.CLOSED)

    def _read_http(self) -> None:
        try:
            data = self._socket.recv(MAX_HEAD_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if self._first_bytes is not None:
            self.deadline_s = time.monotonic() + self._server.limits.handshake_timeout_s
            first_bytes, self._first_bytes = self._first_bytes, None
            first_bytes()
        if not data:
            self._drop()
            return
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end < 0:
            if len(self._head) > MAX_HEAD_BYTES:
                self._send([self._server.router.too_large().data])
                self._finish()
            return
        head, rest = bytes(self._head[: end + 4]), bytes(self._head[end + 4 :])
        self._head.clear()
        answer = self._server.router.answer(head)
        self._send([answer.data])
        if not answer.upgraded:
            self._finish()
            return
        self.state = ConnectionState.HELLO
        self.deadline_s = time.monotonic() + self._server.limits.handshake_timeout_s
        if rest:
            self._reader.attach(rest)
            self._take_all()

    def _take(self, message: Message) -> None:
        if message.opcode is Opcode.BINARY:
            work = self._dispatch(read_client_message(decode_packet(message.data)))
            if work is not None:
                self._work.append(work)
        elif message.opcode is Opcode.PING:
            self._send(encode_frame(Opcode.PONG, [message.data], masked=False))
        elif message.opcode is Opcode.CLOSE:
            decode_close(message.data)
            self._send(encode_frame(Opcode.CLOSE, [encode_close(1000, "")], masked=False))
            self._finish()
        elif message.opcode is Opcode.TEXT:
            raise errors.ProtocolError("Expected binary messages, got a text message.")

    def _dispatch(self, message: Hello | Request | Cancel | Ack | Share) -> Work | None:
        session = self._session
        if self._descriptor is not None and type(message) is not Share:
            self._end_sharing()
        if isinstance(message, Hello):
            if self.state is not ConnectionState.HELLO:
                raise errors.ProtocolError("HELLO came twice.")
            self.state = ConnectionState.OPENING
            self._reader.max_message_bytes = self._server.limits.max_frame_bytes
            features = message.body.get("features")
            self.shares = (
                isinstance(features, list)
                and SHARED_MEMORY in features
                and "open" in message.body
                and can_share(self._socket)
            )
            return self._server.sessions.enter(self, message.body)
        if session is None:
            raise errors.ProtocolError(f"{type(message).__name__} came before WELCOME.")
        if isinstance(message, Request):
            return session.submit(message, self)
        if isinstance(message, Share):
            self._share(session, message.size_bytes)
        elif isinstance(message, Cancel):
            session.cancel(message.id)
        else:
            session.acknowledge(message.ack)
        return None

    def _share(self, session: Session, size_bytes: int) -> None:
        """Map the memory whose descriptor came along, where it was not lost on the way."""
        if self._descriptor is None:
            raise errors.ProtocolError(
                "SHARE came twice, after a request, or without the feature in HELLO and WELCOME."
            )
        fd = self._descriptor.take()
        self._end_sharing()
        if fd is not None:
            session.share(map_memory(fd, size_bytes, self._server.limits.max_frame_bytes))

    def _end_sharing(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            descriptor.close()

    # -- for sessions -------------------------------------------------------------------------

    def opened(self, session: Session) -> bool:
        """Belong to a session from now on; False where the client has left already."""
        with self._writing:
            if self.state is not ConnectionState.OPENING:
                return False
            self._session = session
            self.state = ConnectionState.OPEN
            if self.shares:
                self._descriptor = Descriptor()
            return True

    def refuse(self, error: BaseException) -> None:
        """Answer HELLO with an error."""
        self._reject(error)

    def fence(self) -> None:
        """Close, because a newer connection took the session over."""
        self._session = None
        self._send(
            encode_frame(Opcode.CLOSE, [encode_close(1001, "resumed elsewhere")], masked=False)
        )
        self._drop()

    def finish(self, code: int = CloseCode.NORMAL, reason: str = "") -> None:
        """Close in order, after what was sent before."""
        self._session = None
        self._send(encode_frame(Opcode.CLOSE, [encode_close(code, reason)], masked=False))
        self._finish()

    def notify(self, parts: Sequence[bytes | memoryview]) -> None:
        """Send a message to a client that has a session."""
        if self.state is ConnectionState.OPEN:
            self.send_packet(parts)

    def send_packet(self, parts: Sequence[bytes | memoryview]) -> None:
        """Send a message; never blocks, never raises: a broken connection shows when it is read."""
        self._send(encode_frame(Opcode.BINARY, parts, masked=False))

    # -- output -------------------------------------------------------------------------------

    def _send(self, parts: list[bytes | memoryview]) -> None:
        with self._writing:
            if self.state is ConnectionState.CLOSED:
                return
            if self._outbox.send(parts):
                self._server.pool.arm(self._fd, read=not self.congested, write=True)

    def _flush(self) -> None:
        with self._writing:
            was_congested = self.congested
            self._outbox.flush()
            closing = self.state is ConnectionState.CLOSING and not self._outbox
            session = self._session if was_congested and not self.congested else None
        if closing:
            self._drop()
        if session is not None:
            work = session.go_on()
            if work is not None:
                self._work.append(work)

    @property
    def congested(self) -> bool:
        """So much waits to be sent that no more should be produced."""
        return self._outbox.congested

    def _arm(self) -> None:
        with self._writing:
            if self.state is not ConnectionState.CLOSED:
                self._server.pool.arm(self._fd, read=not self.congested, write=bool(self._outbox))

    # -- end ----------------------------------------------------------------------------------

    def _reject(self, error: BaseException) -> None:
        """Say what was wrong, and close."""
        self.send_packet(encode_packet(Failure(None, error_to_wire(error)).to_wire()))
        code = CloseCode.NORMAL
        if isinstance(error, errors.FrameTooLargeError):
            code = CloseCode.MESSAGE_TOO_BIG
        elif isinstance(error, errors.ProtocolError):
            code = CloseCode.PROTOCOL_ERROR
        if isinstance(error, errors.ProtocolError):
            _log.info("%s: %s", self.peer, error)
        self._send(encode_frame(Opcode.CLOSE, [encode_close(code, "")], masked=False))
        self._finish()

    def _finish(self) -> None:
        """Close once everything has left."""
        with self._writing:
            waiting = bool(self._outbox) and self.state is not ConnectionState.CLOSED
            if waiting:
                self.state = ConnectionState.CLOSING
                self.deadline_s = time.monotonic() + self._server.limits.handshake_timeout_s
        if not waiting:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
            self._drop()

    def _drop(self) -> None:
        with self._writing:
            if self.state is ConnectionState.CLOSED:
                return
            self.state = ConnectionState.CLOSED
            self._outbox.clear()
            self._server.pool.remove(self._fd)
            self._socket.close()
        self._end_sharing()
        session, self._session = self._session, None
        if session is not None:
            session.detach(self)
        self._server.sessions.left(self)
        self._server.forget(self)
