"""A session with a server that speaks OpenEnv's JSON, on asyncio."""

from __future__ import annotations

import functools
from typing import Any

from openenv_gym import errors
from openenv_gym.client.address import Address, Loss, not_lost, parse_base_url
from openenv_gym.client.link import seconds
from openenv_gym.client.lockstep import Lockstep
from openenv_gym.client.web_socket import WebSocket, WebSocketOptions
from openenv_gym.protocol.openenv_json import ErrorCode, RequestType, encode_request, read_reply


__all__ = ["JsonConnection"]

# After these a server closes the connection.
_LAST_CODES = (ErrorCode.CAPACITY_REACHED, ErrorCode.FACTORY_ERROR, ErrorCode.SESSION_ERROR)


class JsonConnection(Lockstep):
    """One session: one WebSocket, one request at a time, in order; usable from one event loop.

    The session is the connection. Where that breaks, the episode is gone, and nothing is resumed.

    Args:
        socket: An open WebSocket on which no subprotocol was chosen; `open` makes one.
        message_timeout_s: Limit of each request.
        why_lost: Tells why a server that is watched is gone; asked where the connection breaks.
    """

    @classmethod
    async def open(
        cls,
        address: Address | str,
        options: WebSocketOptions | None = None,
        *,
        message_timeout_s: float = 60.0,
        why_lost: Loss = not_lost,
    ) -> JsonConnection:
        """Connect to a server.

        A server without a free place takes the connection and says so afterwards; that shows in
        the first request.

        Args:
            address: Where it is: an address, or a URL (``http``, ``https``, ``ws``, ``wss``,
                ``unix``).
            options: Headers, token, limits.
            message_timeout_s: Limit of each request.
            why_lost: Tells why a server that is watched is gone; asked while connecting takes
                long, and where the connection breaks.

        Raises:
            InvalidOptionError: The URL or a limit does not hold.
            ServerUnreachableError: Nothing answers.
            NotAnOpenEnvServerError: Something else answers.
            UnauthorizedError: The server wants a token, or another one.
        """
        if isinstance(address, str):
            address = parse_base_url(address)
        seconds("message_timeout_s", message_timeout_s)
        socket = await WebSocket.open(address, options or WebSocketOptions(), why_lost=why_lost)
        return cls(socket, message_timeout_s=message_timeout_s, why_lost=why_lost)

    async def request(
        self,
        kind: RequestType | str,
        data: dict[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """Send a message and return the ``data`` of its reply.

        Whatever interrupts the wait (the time limit, a cancellation), the session stays usable: a
        late reply is dropped. A request whose turn did not come in time is not sent.

        Args:
            kind: ``type`` of the message: ``reset``, ``step``, ``state`` or ``mcp``.
            data: Its ``data``; None leaves it out.
            timeout_s: Limit of this request; that of the connection by default.

        Raises:
            DeadlineExceededError: No answer came in time.
            CapacityError: The server has no free place.
            InvalidActionError: The server does not take this action.
            EnvironmentFailedError: The environment raised an exception.
            EncodeError: JSON does not carry a value.
            FrameTooLargeError: A message was too large; the session has ended.
            ConnectionLostError: The connection broke, and the session with it.
            SessionClosedError: It was closed before.
            ForkedSessionError: This is a forked child of the process that opened the session.
        """
        kind = RequestType(kind)
        text = encode_request(kind, data)
        read = functools.partial(read_reply, expected=kind.reply)
        return await self.exchange(kind.value, text, read, timeout_s)

    async def close(self, goodbye: str | None = None) -> None:
        """End the session; safe to repeat. In a forked child it ends nothing."""
        await super().close(encode_request(RequestType.CLOSE))

    def is_last(self, error: errors.OpenEnvGymError) -> bool:
        """Tell whether the server ends the session after this error."""
        return error.data.get("openenv_code") in _LAST_CODES
