"""A WebSocket connection that blocks its caller: one system call to send, one or two to receive.

The `websockets` library makes the handshake; messages are cut by `protocol.frames`, which lets the
bytes of an observation land where they stay.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from websockets.client import ClientProtocol
from websockets.http11 import Response
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from openenv_gym import errors
from openenv_gym.client.address import Address, Loss, not_lost
from openenv_gym.client.refusals import explain_refusal
from openenv_gym.client.sockets import IN, OUT, enlarge, poll_socket
from openenv_gym.protocol.codec import decode_packet, encode_packet
from openenv_gym.protocol.frames import (
    Message,
    MessageReader,
    Opcode,
    decode_close,
    encode_close,
    encode_frame,
)
from openenv_gym.protocol.limits import SUBPROTOCOL
from openenv_gym.protocol.patience import Patience


__all__ = ["Frame", "Transport", "encode_message"]

# Handed to `websockets`, which would ask for it each time. That takes a lock of the whole process,
# and Ctrl-C, after which there is a new connection, must not find a thread that holds it.
_log = logging.getLogger("websockets.client")

Frame = list[Any]  # of bytes and memoryviews, ready for sendmsg
_MAX_HEAD_BYTES = 64 << 10
_LOOK_S = 0.001  # a reply that takes longer is not worth a processor
_ASK_S = 1.0  # so often somebody who sleeps asks whether there is still something to wait for
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def encode_message(message: list[Any]) -> Frame:
    """Return the masked frame of a message."""
    return encode_frame(Opcode.BINARY, encode_packet(message), masked=True)


class Transport:
    """An open connection to a server.

    Args:
        address: Where the server is.
        headers: Further headers of the opening request.
        timeout_s: For connecting and the handshake together, and for sending.
        max_frame_bytes: Largest message that is taken.
        why_lost: Asked once a second while nothing comes; an error ends the wait. The end of the
            connection alone does not tell that a server died: its children may hold it open.

    Raises:
        ServerUnreachableError: Nothing answers.
        NotAnOpenEnvServerError: Something else answers; `OtherProtocolError` where it is a
            WebSocket server.
        UnauthorizedError: The server wants a token, or another one.
        VersionMismatchError: The server does not know this protocol's version.
        ConnectionLostError: `why_lost` said so.
    """

    def __init__(
        self,
        address: Address,
        *,
        headers: Mapping[str, str],
        timeout_s: float,
        max_frame_bytes: int,
        why_lost: Loss = not_lost,
    ) -> None:
        end_s = time.monotonic() + timeout_s
        self._address = address
        self._timeout_s = timeout_s
        self._why_lost = why_lost
        self._reader = MessageReader(max_message_bytes=max_frame_bytes, peer_masks=False)
        self._socket = address.dial(timeout_s, why_lost)
        self._tls = isinstance(self._socket, ssl.SSLSocket)
        self._unsent = memoryview(b"")
        self._patience = Patience(0.0 if self._tls else _LOOK_S)
        try:
            # Limits are ours: those of the kernel begin anew after each signal.
            self._socket.setblocking(False)
            enlarge(self._socket)
            self._handshake(headers, end_s)
        except BaseException:
            self._socket.close()
            raise

    # -- messages -----------------------------------------------------------------------------

    def send(self, frame: Frame, timeout_s: float | None = None) -> None:
        """Send a frame.

        Raises:
            TimeoutError: It took too long. Part of it may be sent: only closing is left.
            OSError: The connection broke.
            ConnectionLostError: `why_lost` said so.
        """
        if self._unsent:  # of an earlier frame, which this one must not cut in two
            self._wait_sent(self._deadline(timeout_s))
        left = memoryview(frame[0] if len(frame) == 1 else b"")
        try:
            if len(frame) == 1:
                left = left[self._socket.send(left) :]
                if not left:
                    return
            elif not self._tls:  # which has no sendmsg
                sent = self._socket.sendmsg(frame)
                if sent == sum(map(len, frame)):
                    return
                left = memoryview(b"".join(frame))[sent:]
            else:
                left = memoryview(b"".join(frame))
        except _WOULD_BLOCK:
            left = memoryview(b"".join(frame))
        self._unsent = left
        self._wait_sent(self._deadline(timeout_s))

    @property
    def local(self) -> bool:
        """The connection is a Unix socket, which also carries descriptors."""
        return self._socket.family == socket.AF_UNIX

    def send_with(self, frame: Frame, descriptor: int) -> None:
        """Send a small frame, and a descriptor along with its first byte.

        Raises:
            OSError: The connection broke, or does not take it now.
        """
        data = b"".join(frame)
        sent = socket.send_fds(self._socket, [data], [descriptor])
        self._unsent = memoryview(data)[sent:]

    def start(self, frame: Frame) -> None:
        """Send what the socket takes of a frame; `flush` sends the rest.

        Raises:
            OSError: The connection broke.
        """
        data = frame[0] if len(frame) == 1 else b"".join(frame)
        if self._unsent:
            data = b"".join((self._unsent, data))
        else:
            try:
                sent = self._socket.send(data)
            except _WOULD_BLOCK:
                sent = 0
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
        self._unsent = memoryview(data)
        self.flush()

    def flush(self) -> bool:
        """Send more of what `start` left over, and tell whether nothing is left.

        Raises:
            OSError: The connection broke.
        """
        while self._unsent:
            try:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
            except _WOULD_BLOCK:
                return False
        return True

    def receive_ready(self) -> memoryview | None:
        """Return the payload of the next binary message if it is here; never wait for it.

        Raises:
            OSError: The connection broke or was closed.
            ProtocolError: The server broke the protocol.
        """
        if self._unsent:
            self.flush()
        reader = self._reader
        while True:
            message = reader.next()
            if message is None:
                if reader.eof:
                    raise ConnectionResetError("the server closed the connection")
                try:
                    reader.received(self._socket.recv_into(reader.buffer()))
                except _WOULD_BLOCK:
                    return None
            elif message.opcode is Opcode.BINARY:
                return message.data
            else:
                self._take_control(message, None)

    def fileno(self) -> int:
        """Return the socket's descriptor, for `poll`."""
        return self._socket.fileno()

    @property
    def unsent(self) -> bool:
        """A part of a frame waits until the socket takes it."""
        return len(self._unsent) > 0

    @property
    def holds_bytes(self) -> bool:
        """Bytes may have arrived that `poll` does not see any more."""
        return self._tls or self._reader.mid_frame

    def receive(self, timeout_s: float) -> memoryview:
        """Return the payload of the next binary message.

        Raises:
            TimeoutError: There is none yet; the connection stays usable.
            OSError: The connection broke or was closed.
            ConnectionLostError: `why_lost` said so.
            ProtocolError: The server broke the protocol.
        """
        reader = self._reader
        end_s = time.monotonic() + timeout_s
        begun = False
        while True:
            message = reader.next()
            if message is None:
                if reader.eof:
                    raise ConnectionResetError("the server closed the connection")
                if begun and time.monotonic() > end_s:
                    raise TimeoutError("the message does not end")
                reader.received(self._receive(reader.buffer(), end_s))
                begun = True
            elif message.opcode is Opcode.BINARY:
                return message.data
            else:
                self._take_control(message, timeout_s)

    def receive_message(self, timeout_s: float) -> list[Any]:
        """Return the next message, decoded; see `receive`."""
        return decode_packet(self.receive(timeout_s))

    def close(self, *, polite: bool) -> None:
        """Close the socket; `polite` says so to the server first."""
        if polite:
            with contextlib.suppress(OSError):
                self._socket.send(
                    b"".join(encode_frame(Opcode.CLOSE, [encode_close(1000, "")], masked=True))
                )
        self._socket.close()

    def shut_down(self) -> None:
        """Break the connection under whoever is using it; for any thread and signal handler."""
        with contextlib.suppress(OSError):
            # Not the method of an SSLSocket, which takes the TLS state from under the other one.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _take_control(self, message: Message, timeout_s: float | None) -> None:
        """Take a message that is not binary; answer a ping, at once where there is no limit."""
        if message.opcode is Opcode.PING:
            pong = encode_frame(Opcode.PONG, [message.data], masked=True)
            if timeout_s is None:
                self.start(pong)
            else:
                self.send(pong, timeout_s)
        elif message.opcode is Opcode.CLOSE:
            code, reason = decode_close(message.data)
            raise ConnectionResetError(
                f"the server closed the connection ({code} {reason})".replace(" )", ")")
            )
        elif message.opcode is Opcode.TEXT:
            raise errors.ProtocolError("Expected binary messages, got a text message.")

    def _wait_sent(self, end_s: float) -> None:
        """Send what is left over."""
        while self._unsent:
            try:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
            except _WOULD_BLOCK as error:
                self._sleep(not isinstance(error, ssl.SSLWantReadError), end_s)

    def _deadline(self, timeout_s: float | None) -> float:
        return time.monotonic() + (self._timeout_s if timeout_s is None else timeout_s)

    def _receive(self, buffer: memoryview, end_s: float) -> int:
        """Receive something, 0 bytes at the end of the connection."""
        looking = self._patience.begin()
        if not looking and not self._tls:  # which may hold bytes that poll() does not see
            self._sleep(False, end_s)
        while True:
            try:
                return self._socket.recv_into(buffer)
            except _WOULD_BLOCK as error:
                looking = looking and self._patience.again()
                if not looking:
                    self._sleep(isinstance(error, ssl.SSLWantWriteError), end_s)

    def _sleep(self, to_send: bool, end_s: float) -> None:
        """Sleep until the socket takes or has bytes; signals do not prolong it."""
        left_s = end_s - time.monotonic()
        events = OUT if to_send else IN
        if self._unsent:  # the server may answer only when it has all, or read only when we do
            events = IN | OUT
        while not poll_socket(self._socket, events, max(min(left_s, _ASK_S), 0.0)):
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError("no answer")
            lost = self._why_lost()
            if lost is not None:
                raise lost
        if self._unsent and not to_send:
            self.flush()

    # -- handshake ----------------------------------------------------------------------------

    def _handshake(self, headers: Mapping[str, str], end_s: float) -> None:
        protocol = ClientProtocol(
            parse_uri(self._address.uri),
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            max_size=None,
            logger=_log,
        )
        request = protocol.connect()
        for name, value in headers.items():
            request.headers[name] = value
        protocol.send_request(request)
        try:
            for data in protocol.data_to_send():
                self.send([data], end_s - time.monotonic())
            response = self._read_response(protocol, end_s)
        except errors.OpenEnvGymError:
            raise
        except TimeoutError as error:
            raise errors.ServerUnreachableError(
                f"The server at {self._address} accepted the connection but did not answer.",
                hint="Is it an openenv-gym server, and not overloaded?",
            ) from error
        except OSError as error:
            raise errors.ServerUnreachableError(
                f"The server at {self._address} broke the connection off: {error}."
            ) from error
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS or protocol.handshake_exc:
            raise explain_refusal(self._address, response, protocol.handshake_exc)
        if protocol.subprotocol != SUBPROTOCOL:
            raise errors.OtherProtocolError(
                f"The WebSocket server at {self._address} does not speak {SUBPROTOCOL}."
            )

    def _read_response(self, protocol: ClientProtocol, end_s: float) -> Response:
        """Read the answer; what follows the head of a 101 is the reader's."""
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._read_some(end_s)
            if not received.startswith(b"HTTP/"[: len(received)]):
                raise self._not_http(received)
            if len(received) > _MAX_HEAD_BYTES:
                raise self._not_http(received)
        head, _, rest = received.partition(b"\r\n\r\n")
        if head.split(b" ", 2)[1:2] == [b"101"]:
            protocol.receive_data(head + b"\r\n\r\n")
            self._reader.attach(rest)
        else:
            protocol.receive_data(received)
        while not (events := protocol.events_received()):
            if protocol.handshake_exc is not None:
                raise self._not_http(received)
            try:
                protocol.receive_data(self._read_some(end_s))
            except ConnectionResetError:  # the end of a body without a length
                protocol.receive_eof()
        response = events[0]
        assert isinstance(response, Response)
        return response

    def _read_some(self, end_s: float) -> bytes:
        if time.monotonic() > end_s:
            raise TimeoutError("the answer does not end")
        buffer = bytearray(4096)
        count = self._receive(memoryview(buffer), end_s)
        if not count:
            raise ConnectionResetError("it closed the connection")
        return bytes(buffer[:count])

    def _not_http(self, received: bytes) -> errors.NotAnOpenEnvServerError:
        return errors.NotAnOpenEnvServerError(
            f"The server at {self._address} does not speak HTTP: it answered {received[:40]!r}.",
            hint="Is this the address of an openenv-gym server?",
        )
