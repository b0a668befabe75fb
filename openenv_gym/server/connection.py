"""One connection to a server: bytes in, messages to their session, bytes out."""

from __future__ import annotations

import logging
import math
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from http import HTTPStatus

from openenv_gym import errors
from openenv_gym.protocol.frames import (
    CloseCode,
    Message,
    MessageReader,
    Opcode,
    decode_close,
    encode_close,
    encode_frame,
)
from openenv_gym.server.dialects import BinaryDialect, Dialect, Work
from openenv_gym.server.figures import code_of
from openenv_gym.server.http import Call, Handover, Upgrade
from openenv_gym.server.http_messages import HttpResponse
from openenv_gym.server.peers import asked_by
from openenv_gym.server.poller import Event
from openenv_gym.server.replies import ReplyCoder
from openenv_gym.server.request_reader import RequestReader
from openenv_gym.server.session import Session
from openenv_gym.server.shared_memory import Descriptor
from openenv_gym.server.site import ConnectionState, Site
from openenv_gym.server.stream import Stream


__all__ = ["Connection"]

_log = logging.getLogger(__name__)

_MAX_HELLO_BYTES = 1 << 20
_MIN_BODY_RATE = 1 << 20  # bytes a second in which the body of a request has to come
_NO_ROOM = HttpResponse(
    HTTPStatus.SERVICE_UNAVAILABLE,
    b"Too many large requests are being sent at once; try again in a second.\n",
    "text/plain; charset=utf-8",
    {"Retry-After": "1"},
)
_NO_PAGE = HttpResponse(
    HTTPStatus.SERVICE_UNAVAILABLE,
    b"The page is not there at the moment; try again in a few seconds.\n",
    "text/plain; charset=utf-8",
    {"Retry-After": "5"},
)


class Connection(Stream):
    """State of one connection; `on_event` is called by one thread of the pool at a time.

    Args:
        server: Whom it belongs to.
        sock: An accepted socket.
        peer: Where it comes from, for logs.
        first_bytes: Called when the peer begins to speak, or hangs up; it may take its time.

    Attributes:
        session: What it is heard on.
        shares: The client may send SHARE.
        received_bytes: What came, in all.
        arrived_s: When a session was asked for, on the clock of `time.monotonic`; 0 before that.
        descriptor: Between WELCOME and the first request, where the client may share memory.
    """

    def __init__(
        self,
        server: Site,
        sock: socket.socket,
        peer: str,
        *,
        first_bytes: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(server, sock, peer)
        self._first_bytes = first_bytes
        if first_bytes is not None:
            self.deadline_s = math.inf
        self._requests = RequestReader(server.router)
        self._body_bytes = 0  # taken of the room for bodies
        self._reader = MessageReader(
            max_message_bytes=min(_MAX_HELLO_BYTES, server.limits.max_frame_bytes),
            peer_masks=True,
        )
        self._dialect: Dialect = BinaryDialect(self)
        self._work: list[Work] = []
        self.received_bytes = 0
        self.arrived_s = 0.0
        self.session: Session | None = None
        self._reading = threading.Lock()
        self._holds = False  # messages that came before anybody listened
        self.shares = False
        self.descriptor: Descriptor | None = None

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
            self.site.pool.run(each)

    def expire(self, now_s: float) -> None:
        """Close a connection whose handshake, or whose last bytes, take too long."""
        self._expire_output(now_s)
        waits = (ConnectionState.HTTP, ConnectionState.HELLO, ConnectionState.CLOSING)
        if self.state in waits and now_s > self.deadline_s:
            self._note(f"closed, {self.state.value} took too long")
            if self.state is ConnectionState.HELLO:
                self._send(_close_frame(1008, "no HELLO in time"))
            self._drop()

    def _read(self) -> None:
        if self.state is ConnectionState.HTTP:
            self._read_http()
            return
        reader, sock = self._reader, self.socket
        if self.state is ConnectionState.CLOSING:
            self._discard()
            return
        if self._holds and self._listens():
            self._holds = False
            self._take_all()
        while self._listens() and not self.congested:
            buffer = reader.buffer()
            try:
                if self.descriptor is None:
                    count = sock.recv_into(buffer)
                else:
                    count = self.descriptor.receive(sock, buffer)
            except BlockingIOError:
                return
            self.received_bytes += count
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
        state = self.state
        if state is ConnectionState.OPEN:  # almost always
            return True
        if state is ConnectionState.OPENING:
            return self._dialect.listens_while_opening
        return state not in (
            ConnectionState.ANSWERING,
            ConnectionState.CLOSING,
            ConnectionState.CLOSED,
        )

    def _read_http(self) -> None:
        try:
            data = self.socket.recv(self._requests.wanted_bytes)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.received_bytes += len(data)
        if self._first_bytes is not None:
            self.deadline_s = time.monotonic() + self.site.limits.handshake_timeout_s
            first_bytes, self._first_bytes = self._first_bytes, None
            first_bytes()
        if not data:
            self._drop()
            return
        self._hear_http(data)

    def _hear_http(self, data: bytes) -> None:
        """Do what a request asks for, once it is complete."""
        reader = self._requests
        begun = reader.call is not None
        answer = reader.feed(data)
        if answer is not None and not isinstance(answer, HttpResponse):
            self.peer = self.site.router.peer_behind(answer.request) or self.peer
        if reader.call is not None and not begun:
            taken = self.site.bodies.take(reader.call.body_bytes)
            if taken is None:
                self._respond(_NO_ROOM)
                return
            self._body_bytes = taken
            self.deadline_s += reader.call.body_bytes / _MIN_BODY_RATE
        if reader.take_go():
            self._send([b"HTTP/1.1 100 Continue\r\n\r\n"])
        if isinstance(answer, Upgrade):
            self._upgrade(answer, reader.rest)
        elif isinstance(answer, HttpResponse):
            self._respond(answer)
        elif isinstance(answer, Handover):
            self._give_away(answer.request.head + reader.rest)
        elif answer is not None:
            self._become(ConnectionState.ANSWERING)
            call = answer
            if call.route.quick:
                self._answer(call)
            else:
                self._work.append(lambda: self._answer(call))

    def _give_away(self, said: bytes) -> None:
        """Have the page's program go on with this connection, with what it has said."""
        with self._writing:
            given = self.site.show_page(self._fd, self.peer, said)
            if given:
                self.state = ConnectionState.CLOSED
                self.site.pool.remove(self._fd)
                self.socket.close()
        if given:
            self.site.forget(self)
        else:
            self._respond(_NO_PAGE)

    def _upgrade(self, answer: Upgrade, rest: bytes) -> None:
        """Be a WebSocket from now on."""
        self._send([answer.response])
        if answer.subprotocol is None:
            self._dialect = self.site.make_dialect(self, answer.request)
        work = self._dialect.begin()
        if work is not None:
            self._work.append(work)
        if rest:
            self._reader.attach(rest)
            self._take_all()
            self._holds = not self._listens()

    def _answer(self, call: Call) -> None:
        """Have a request answered, and end."""
        request = call.request
        try:
            with asked_by(self.peer):
                response = call.route.handler(request)
        except BaseException as error:  # an environment may well call sys.exit()
            _log.warning(
                "%s %s: %s", request.method, request.path, error, extra={"peer": self.peer}
            )
            response = HttpResponse.of_text(
                HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}"
            )
        self._respond(replace(response, bare=request.method == "HEAD"))

    def _respond(self, response: HttpResponse) -> None:
        if response.status >= HTTPStatus.BAD_REQUEST:
            self.site.figures.error(f"http_{response.status.value}")
        self._send([response.to_bytes()])
        self._finish(linger=True)

    def _take(self, message: Message) -> None:
        if message.opcode is Opcode.PING:
            self._send(encode_frame(Opcode.PONG, [message.data], masked=False))
        elif message.opcode is Opcode.CLOSE:
            decode_close(message.data)
            if self.session is None or not self._dialect.part(self.session):
                self._send(_close_frame(1000, ""))
                self._finish()
        elif message.opcode is not Opcode.PONG:
            work = self._dialect.take(message)
            if work is not None:
                self._work.append(work)

    # -- for dialects -------------------------------------------------------------------------

    def expect_hello(self) -> None:
        """Wait for a first message."""
        self._become(ConnectionState.HELLO)
        self.deadline_s = time.monotonic() + self.site.limits.handshake_timeout_s

    def opening(self) -> None:
        """Wait for a session."""
        self.arrived_s = self.arrived_s or time.monotonic()
        self._become(ConnectionState.OPENING)
        self._reader.max_message_bytes = self.site.limits.max_frame_bytes

    def end_sharing(self) -> None:
        """Take no descriptor any more."""
        descriptor, self.descriptor = self.descriptor, None
        if descriptor is not None:
            descriptor.close()

    # -- for sessions -------------------------------------------------------------------------

    def opened(self, session: Session) -> bool:
        """Belong to a session from now on; False where the client has left already."""
        with self._writing:
            if self.state is not ConnectionState.OPENING:
                return False
            self.session = session
            self.state = ConnectionState.OPEN
            if self.shares:
                self.descriptor = Descriptor()
            return True

    def attached(self) -> None:
        """Take what came while the session was opened, where it had to wait."""
        if not self._dialect.listens_while_opening:
            self.site.pool.spawn(self.read_on)

    def refuse(self, error: BaseException) -> None:
        """Answer HELLO with an error."""
        self._reject(error)

    def fence(self) -> None:
        """Close, because a newer connection took the session over."""
        self.session = None
        self._send(_close_frame(1001, "resumed elsewhere"))
        self._drop()

    def finish(self, code: int = CloseCode.NORMAL, reason: str = "") -> None:
        """Close in order, after what was sent before."""
        self.session = None
        self._send(_close_frame(code, reason))
        self._finish()

    def notify(self, parts: Sequence[bytes | memoryview]) -> None:
        """Send a message to a client that has a session."""
        notice = self._dialect.notice(parts)
        if self.state is ConnectionState.OPEN and notice is not None:
            self.send_packet(notice)

    @property
    def coder(self) -> ReplyCoder:
        """How replies are written."""
        return self._dialect.coder

    def send_packet(self, parts: Sequence[bytes | memoryview]) -> None:
        """Send a message; never blocks, never raises: a broken connection shows when it is read."""
        self._send(encode_frame(self._dialect.opcode, parts, masked=False))

    def _has_room(self) -> None:
        """Go on with the requests that waited until the peer takes what it is sent."""
        work = self.session.go_on() if self.session is not None else None
        if work is not None:
            self._work.append(work)

    def read_on(self) -> None:
        """Take what came while nothing was taken, and wait for more."""
        self.on_event(Event(self._fd, readable=True, writable=False))

    def _facts(self) -> dict[str, str]:
        facts = super()._facts()
        if self.session is not None:
            facts["session"] = self.session.name
        return facts

    # -- end ----------------------------------------------------------------------------------

    def _reject(self, error: BaseException) -> None:
        """Say what was wrong, and close."""
        self.site.figures.error(code_of(error))
        parts, code = self._dialect.refusal(error)
        self.send_packet(parts)
        if isinstance(error, errors.ProtocolError):
            self._note(str(error))
        self._send(_close_frame(code))
        self._finish(linger=True)
        self._leave()

    def _dropped(self) -> None:
        self.site.bodies.give(self._body_bytes)
        self._leave()
        self.site.sessions.left(self)
        self.site.forget(self)

    def _leave(self) -> None:
        """Belong to no session any more."""
        self.end_sharing()
        session, self.session = self.session, None
        if session is not None:
            self._dialect.leave(session)


def _close_frame(code: int, reason: str = "") -> list[bytes | memoryview]:
    return encode_frame(Opcode.CLOSE, [encode_close(code, reason)], masked=False)
