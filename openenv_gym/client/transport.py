"""A blocking WebSocket connection: one system call to send, one or two to receive.

The `websockets` library makes the handshake; messages are cut by `protocol.frames`, which lets the
bytes of an observation land where they stay.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import sys
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake
from websockets.http11 import Response
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from openenv_gym import errors
from openenv_gym.client.address import Address
from openenv_gym.protocol.codec import decode_packet, encode_packet
from openenv_gym.protocol.frames import (
    MessageReader,
    Opcode,
    decode_close,
    encode_close,
    encode_frame,
)
from openenv_gym.protocol.limits import SUBPROTOCOL
from openenv_gym.protocol.patience import Patience


__all__ = ["Frame", "Transport", "encode_message"]

Frame = list[Any]  # of bytes and memoryviews, ready for sendmsg
_MAX_HEAD_BYTES = 64 << 10
_LOOK_S = 0.001  # a reply that takes longer is not worth a processor


def encode_message(message: list[Any]) -> Frame:
    """Return the masked frame of a message."""
    return encode_frame(Opcode.BINARY, encode_packet(message), masked=True)


class Transport:
    """An open connection to a server.

    Args:
        address: Where the server is.
        headers: Further headers of the opening request.
        timeout_s: For connecting and for the handshake.
        max_frame_bytes: Largest message that is taken.

    Raises:
        ServerUnreachableError: Nothing answers.
        NotAnOpenEnvServerError: Something else answers.
        UnauthorizedError: The server wants a token, or another one.
        VersionMismatchError: The server does not know this protocol's version.
    """

    def __init__(
        self,
        address: Address,
        *,
        headers: Mapping[str, str],
        timeout_s: float,
        max_frame_bytes: int,
    ) -> None:
        self._address = address
        self._max_frame_bytes = max_frame_bytes
        self._reader = MessageReader(max_message_bytes=max_frame_bytes, peer_masks=False)
        self._socket = address.dial(timeout_s)
        self._timeout_s: float | None = None
        tls = isinstance(self._socket, ssl.SSLSocket)  # takes no flags
        self._patience = Patience(0.0 if tls else _LOOK_S)
        try:
            self._handshake(headers, time.monotonic() + timeout_s)
        except BaseException:
            self._socket.close()
            raise
        self._set_timeout(timeout_s)

    # -- messages -----------------------------------------------------------------------------

    def send(self, frame: Frame) -> None:
        """Send a frame.

        Raises:
            OSError: The connection broke, or took too long.
        """
        sent = self._socket.send(frame[0]) if len(frame) == 1 else self._socket.sendmsg(frame)
        total = sum(map(len, frame))
        if sent < total:
            self._socket.sendall(memoryview(b"".join(frame))[sent:])

    def receive(self, timeout_s: float) -> memoryview:
        """Return the payload of the next binary message.

        Raises:
            TimeoutError: There is none yet; the connection stays usable.
            OSError: The connection broke or was closed.
            ProtocolError: The server broke the protocol.
        """
        reader = self._reader
        if timeout_s != self._timeout_s:
            self._set_timeout(timeout_s)
        end_s = 0.0
        while True:
            message = reader.next()
            if message is None:
                if reader.eof:
                    raise ConnectionResetError("the server closed the connection")
                self._fill()
                if end_s == 0.0:
                    end_s = time.monotonic() + timeout_s
                elif time.monotonic() > end_s:
                    raise TimeoutError("the message does not end")
            elif message.opcode is Opcode.BINARY:
                return message.data
            elif message.opcode is Opcode.PING:
                self.send(encode_frame(Opcode.PONG, [message.data], masked=True))
            elif message.opcode is Opcode.CLOSE:
                code, reason = decode_close(message.data)
                raise ConnectionResetError(
                    f"the server closed the connection ({code} {reason})".replace(" )", ")")
                )
            elif message.opcode is Opcode.TEXT:
                raise errors.ProtocolError("Expected binary messages, got a text message.")

    def receive_message(self, timeout_s: float) -> list[Any]:
        """Return the next message, decoded; see `receive`."""
        return decode_packet(self.receive(timeout_s))

    def close(self, *, polite: bool) -> None:
        """Close the socket; `polite` says so to the server first."""
        if polite:
            with contextlib.suppress(OSError):
                self._socket.setblocking(False)
                self._socket.sendmsg(
                    encode_frame(Opcode.CLOSE, [encode_close(1000, "")], masked=True)
                )
        self._socket.close()

    def _fill(self) -> None:
        buffer = self._reader.buffer()
        if self._patience.begin():
            while True:
                try:
                    count = self._socket.recv_into(buffer, 0, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    if self._patience.again():
                        continue
                    break
                self._reader.received(count)
                return
        try:
            count = self._socket.recv_into(buffer)
        except BlockingIOError:
            raise TimeoutError("no answer") from None
        self._reader.received(count)

    def _set_timeout(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        if isinstance(self._socket, ssl.SSLSocket) or sys.platform == "win32":
            self._socket.settimeout(timeout_s)
            return
        # Limits of the kernel: a Python timeout would cost a poll() before each call.
        self._socket.setblocking(True)
        seconds = max(timeout_s, 1e-6)
        value = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)

    # -- handshake ----------------------------------------------------------------------------

    def _handshake(self, headers: Mapping[str, str], deadline_s: float) -> None:
        protocol = ClientProtocol(
            parse_uri(self._address.uri), subprotocols=[Subprotocol(SUBPROTOCOL)], max_size=None
        )
        request = protocol.connect()
        for name, value in headers.items():
            request.headers[name] = value
        protocol.send_request(request)
        try:
            for data in protocol.data_to_send():
                self._socket.sendall(data)
            response = self._read_response(protocol, deadline_s)
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
            raise self._refusal(response, protocol.handshake_exc)
        if protocol.subprotocol != SUBPROTOCOL:
            raise errors.NotAnOpenEnvServerError(
                f"The WebSocket server at {self._address} does not speak {SUBPROTOCOL}."
            )

    def _read_response(self, protocol: ClientProtocol, deadline_s: float) -> Response:
        """Read the answer; what follows the head of a 101 is the reader's."""
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._read_some(deadline_s)
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
                protocol.receive_data(self._read_some(deadline_s))
            except ConnectionResetError:  # the end of a body without a length
                protocol.receive_eof()
        response = events[0]
        assert isinstance(response, Response)
        return response

    def _read_some(self, deadline_s: float) -> bytes:
        self._socket.settimeout(max(deadline_s - time.monotonic(), 0.001))
        data = self._socket.recv(4096)
        if not data:
            raise ConnectionResetError("it closed the connection")
        return data

    def _not_http(self, received: bytes) -> errors.NotAnOpenEnvServerError:
        return errors.NotAnOpenEnvServerError(
            f"The server at {self._address} does not speak HTTP: it answered {received[:40]!r}.",
            hint="Is this the address of an openenv-gym server?",
        )

    def _refusal(self, response: Response, reason: BaseException | None) -> errors.OpenEnvGymError:
        where = f"The server at {self._address}"
        body = bytes(response.body or b"")[:300].decode(errors="replace").strip()
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            return errors.UnauthorizedError(
                f"{where} wants a token, or another one.",
                hint="Set OPENENV_TOKEN.",
            )
        spoken = response.headers.get("Sec-WebSocket-Protocol", "")
        if spoken.startswith("openenv-gym.") or "subprotocol openenv-gym." in body:
            return errors.VersionMismatchError(
                f"{where} speaks {spoken or 'another version'}, this client {SUBPROTOCOL}. {body}",
                hint="Install matching versions of openenv-gym on both sides.",
            )
        if isinstance(reason, InvalidHandshake) and response.status_code == 101:
            return errors.NotAnOpenEnvServerError(f"{where} failed the handshake: {reason}.")
        return errors.NotAnOpenEnvServerError(
            f"{where} refused the WebSocket with status {response.status_code}: {body or reason}"
        )
