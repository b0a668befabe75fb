"""A WebSocket on asyncio whose exceptions are this library's; both protocols travel on it."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidMessage,
    InvalidStatus,
    ProxyError,
    WebSocketException,
)
from websockets.frames import CloseCode
from websockets.protocol import State
from websockets.typing import Subprotocol

from openenv_gym import errors
from openenv_gym._version import __version__
from openenv_gym.client.address import Address, Loss, TcpAddress, explain_tls, not_lost
from openenv_gym.client.refusals import explain_refusal
from openenv_gym.protocol.limits import PATH


__all__ = ["WebSocket", "WebSocketOptions"]

_AGENT = f"openenv-gym/{__version__}"


@dataclass(frozen=True)
class WebSocketOptions:
    """How a WebSocket is opened and kept.

    Attributes:
        headers: Further headers of the opening request.
        token: Credential, sent as ``Authorization: Bearer TOKEN``.
        ssl_context: For ``https`` and ``wss``; None trusts what the address says.
        connect_timeout_s: Limit of connecting and the handshake together.
        close_timeout_s: How long a server may take to agree to the end of the connection.
        ping_interval_s: How often a ping asks whether the server is still there; None for never.
        ping_timeout_s: How long it may take to answer; None for ever.
        max_message_bytes: Largest message that is taken.
    """

    headers: Mapping[str, str] = field(default_factory=dict)
    token: str | None = None
    ssl_context: ssl.SSLContext | None = None
    connect_timeout_s: float = 10.0
    close_timeout_s: float = 5.0
    ping_interval_s: float | None = 20.0
    ping_timeout_s: float | None = 20.0
    max_message_bytes: int = 100 << 20

    def __repr__(self) -> str:
        return f"{type(self).__name__}(connect_timeout_s={self.connect_timeout_s:g}, ...)"

    def request_headers(self) -> dict[str, str]:
        """Return the headers of the opening request, the credential among them."""
        headers = dict(self.headers)
        if self.token:
            headers = {k: v for k, v in headers.items() if k.lower() != "authorization"}
            headers["Authorization"] = f"Bearer {self.token}"
        return headers


class WebSocket:
    """An open WebSocket; `open` makes one.

    Attributes:
        address: Where the server is.
        subprotocol: What the server chose of the subprotocols offered; None where nothing.
    """

    def __init__(self, address: Address, connection: ClientConnection) -> None:
        self.address = address
        self.subprotocol: str | None = connection.subprotocol
        self._connection = connection

    @classmethod
    async def open(
        cls,
        address: Address,
        options: WebSocketOptions,
        *,
        subprotocols: Sequence[str] = (),
        path: str | None = None,
        why_lost: Loss = not_lost,
    ) -> WebSocket:
        """Connect and shake hands.

        Args:
            address: Where the server is.
            options: Limits, headers and the like.
            subprotocols: What is offered, the best first.
            path: In place of ``/ws``.
            why_lost: Asked now and then where it takes long; what it returns is raised.

        Raises:
            ServerUnreachableError: Nothing answers.
            NotAnOpenEnvServerError: Something else answers.
            CertificateError: Its certificate is not trusted.
            UnauthorizedError: The server wants a token, or another one.
            VersionMismatchError: The server does not know this protocol's version.
        """
        end_s = time.monotonic() + options.connect_timeout_s
        how: dict[str, Any] = {"compression": None, "proxy": None}
        if not isinstance(address, TcpAddress):
            how["sock"] = await _dial(address, options.connect_timeout_s, why_lost)
        elif not _is_loopback(address.host):
            how = {"compression": "deflate", "proxy": True}
        if isinstance(address, TcpAddress) and address.tls:
            how["ssl"] = options.ssl_context or address.ssl_context()
        try:
            connection = await connect(
                address.uri if path is None else address.uri.removesuffix(PATH) + path,
                additional_headers=options.request_headers(),
                user_agent_header=_AGENT,
                subprotocols=[Subprotocol(name) for name in subprotocols] or None,
                open_timeout=max(end_s - time.monotonic(), 0.001),
                ping_interval=options.ping_interval_s,
                ping_timeout=options.ping_timeout_s,
                close_timeout=options.close_timeout_s,
                max_size=options.max_message_bytes,
                **how,
            )
        except BaseException as error:
            if "sock" in how:
                how["sock"].close()
            explained = _explain_failure(address, error)
            if explained is None:
                raise
            raise explained from error
        return cls(address, connection)

    @property
    def closed(self) -> bool:
        """The connection is closed, whoever did it."""
        return self._connection.state is State.CLOSED

    async def send(self, message: str | bytes) -> None:
        """Send a message; where this is cancelled, it goes out all the same.

        Raises:
            ConnectionLostError: The connection is closed.
            FrameTooLargeError: It was closed because a message was too large.
        """
        if self.closed:
            error = self._connection.protocol.close_exc
            raise self._explain_closed(error) from error
        try:
            await self._connection.send(message)
        except ConnectionClosed as error:
            raise self._explain_closed(error) from error

    async def receive_ready(self) -> str | bytes | None:
        """Return a message that has arrived already; None where there is none."""
        task = asyncio.ensure_future(self._connection.recv())
        await asyncio.sleep(0)  # in which it takes what is there
        if not task.done():
            task.cancel()  # which loses nothing
        await asyncio.wait({task})
        if task.cancelled() or task.exception() is not None:
            return None  # what has happened to the connection, the next one to use it finds out
        return task.result()

    async def receive(self) -> str | bytes:
        """Return the next message; cancelling this loses nothing.

        Raises:
            ConnectionLostError: The connection is closed.
            FrameTooLargeError: It was closed because a message was too large.
            ProtocolError: It was closed because the server broke the protocol.
        """
        try:
            return await self._connection.recv()
        except ConnectionClosed as error:
            raise self._explain_closed(error) from error

    async def close(self) -> None:
        """Close the connection, in order where the server goes along. Safe to repeat."""
        if not self.closed:
            await self._connection.close()

    def abort(self) -> None:
        """Close the connection at once, without a word."""
        if not self._connection.transport.is_closing():
            self._connection.transport.abort()

    def _explain_closed(self, error: ConnectionClosed) -> errors.OpenEnvGymError:
        where = f"the server at {self.address}"
        ours, theirs = error.sent, error.rcvd
        if theirs is not None and theirs.code == CloseCode.MESSAGE_TOO_BIG:
            return errors.FrameTooLargeError(
                f"A message was too large for {where}, which closed the connection.",
                hint="Send less, or have the server take more.",
                data={"by": "server"},
            )
        first_ours = ours is not None and not error.rcvd_then_sent
        if ours is not None and first_ours and ours.code == CloseCode.MESSAGE_TOO_BIG:
            return errors.FrameTooLargeError(
                f"A message of {where} is larger than this client takes: {ours.reason}.",
                hint="Raise max_message_size_mb.",
                data={"by": "client"},
            )
        if ours is not None and first_ours and ours.code in _BROKEN:
            return errors.ProtocolError(
                f"What {where} sent is no message: {ours.reason or ours.code}."
            )
        if theirs is not None:
            how = f"closed the connection ({theirs.code} {theirs.reason}".rstrip() + ")"
        elif ours is not None and ours.code == CloseCode.INTERNAL_ERROR:
            how = f"no longer answers ({ours.reason})"
        else:
            how = "broke the connection off"
        return errors.ConnectionLostError(
            errors.printable(f"T{where[1:]} {how}."),
            data={"code": None if theirs is None else int(theirs.code)},
        )


_BROKEN = (CloseCode.PROTOCOL_ERROR, CloseCode.INVALID_DATA)


async def _dial(address: Address, timeout_s: float, why_lost: Loss) -> socket.socket:
    """Dial in a thread, for what blocks; a socket that comes too late is closed."""
    dialing = asyncio.ensure_future(asyncio.to_thread(address.dial, timeout_s, why_lost))
    try:
        sock = await asyncio.shield(dialing)
    except asyncio.CancelledError:
        dialing.add_done_callback(_close_result)
        raise
    sock.setblocking(False)
    return sock


def _close_result(dialing: asyncio.Future[socket.socket]) -> None:
    with contextlib.suppress(Exception, asyncio.CancelledError):
        dialing.result().close()


def _uses_tls(address: Address) -> bool:
    return isinstance(address, TcpAddress) and address.tls


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _explain_failure(address: Address, error: BaseException) -> errors.OpenEnvGymError | None:
    """Return the error that a failed opening stands for; None where it is none of ours."""
    where = f"The server at {address}"
    if isinstance(error, InvalidStatus):
        return explain_refusal(address, error.response)
    if isinstance(error, TimeoutError | asyncio.TimeoutError):  # one class only from 3.11 on
        return errors.ServerUnreachableError(
            f"{where} does not answer in time.",
            hint="Is it an OpenEnv server, and not overloaded? Or raise connect_timeout_s."
            + (" Or does it speak http, without TLS?" if _uses_tls(address) else ""),
        )
    if isinstance(error, ssl.SSLError):
        return explain_tls(str(address), error)
    if isinstance(error, OSError | ImportError | ProxyError | UnicodeError):  # of a name of a host
        said = getattr(error, "strerror", None) or error
        return errors.ServerUnreachableError(
            f"No server answers at {address}: {said}.",
            hint="Start the server, or check the address.",
        )
    if isinstance(error, InvalidMessage):
        if isinstance(error.__cause__, EOFError):
            return errors.ServerUnreachableError(f"{where} broke the connection off.")
        return errors.NotAnOpenEnvServerError(
            f"{where} does not speak HTTP: {errors.printable(str(error.__cause__ or error))}.",
            hint="Is this the address of an OpenEnv server?",
        )
    if isinstance(error, InvalidHandshake | WebSocketException):
        return errors.NotAnOpenEnvServerError(
            f"{where} failed the handshake: {errors.printable(str(error))}."
        )
    return None
