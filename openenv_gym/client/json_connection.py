"""A session with a server that speaks OpenEnv's JSON, on asyncio.

That protocol has no ids: replies belong to requests by their order alone. So each request waits for
the one before it, also for one whose caller has given up: its late reply is taken by it, and never
by another.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Any

from openenv_gym import errors
from openenv_gym.client.address import Address, Loss, not_lost, parse_base_url
from openenv_gym.client.link import seconds
from openenv_gym.client.web_socket import WebSocket, WebSocketOptions
from openenv_gym.protocol.openenv_json import ErrorCode, RequestType, encode_request, read_reply


__all__ = ["JsonConnection"]

# After these a server closes the connection.
_LAST_CODES = (ErrorCode.CAPACITY_REACHED, ErrorCode.FACTORY_ERROR, ErrorCode.SESSION_ERROR)


class JsonConnection:
    """One session: one WebSocket, one request at a time, in order; usable from one event loop.

    The session is the connection. Where that breaks, the episode is gone, and nothing is resumed.

    Args:
        socket: An open WebSocket on which no subprotocol was chosen; `open` makes one.
        message_timeout_s: Limit of each request.
    """

    def __init__(self, socket: WebSocket, *, message_timeout_s: float = 60.0) -> None:
        self._socket = socket
        self._timeout_s = seconds("message_timeout_s", message_timeout_s)
        self._owner_pid = os.getpid()
        self._last: asyncio.Task[dict[str, Any]] | None = None
        self._why_closed: errors.OpenEnvGymError | None = None

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
            why_lost: Asked while connecting takes long.

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
        return cls(socket, message_timeout_s=message_timeout_s)

    @property
    def address(self) -> Address:
        """Where the server is."""
        return self._socket.address

    @property
    def closed(self) -> bool:
        """The session has ended."""
        return self._why_closed is not None

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
        limit_s = self._timeout_s if timeout_s is None else seconds("timeout_s", timeout_s)
        kind = RequestType(kind)
        self._check_usable(kind)
        text = encode_request(kind, data)
        turn = _Turn()
        task = asyncio.create_task(self._exchange(turn, kind, text, self._last))
        self._last = task
        try:
            await asyncio.wait({task}, timeout=limit_s)
        finally:
            turn.wanted = False
            task.add_done_callback(_note_exception)
        if task.done():
            return task.result()
        raise errors.DeadlineExceededError(
            f"No answer to {kind.value} within {limit_s:g} s.",
            hint="Call reset() to go on, or raise the time limit.",
            data={"op": kind.value, "timeout_s": limit_s},
        )

    async def close(self) -> None:
        """End the session; safe to repeat. In a forked child it ends nothing."""
        closed_before = self._why_closed is not None
        if self._why_closed is None:
            self._why_closed = errors.SessionClosedError(
                "The environment is closed.", hint="Make a new one."
            )
        if os.getpid() != self._owner_pid:
            return
        if not closed_before and (self._last is None or self._last.done()):
            with contextlib.suppress(errors.OpenEnvGymError):  # it has ended all the same
                await self._socket.send(encode_request(RequestType.CLOSE))
        await self._socket.close()

    async def _exchange(
        self,
        turn: _Turn,
        kind: RequestType,
        text: str,
        previous: asyncio.Task[dict[str, Any]] | None,
    ) -> dict[str, Any]:
        """Wait for the turn of a request, send it and take its reply."""
        if previous is not None:
            await asyncio.wait({previous})
            del previous  # or each request would hold all those before it
        if not turn.wanted:
            return {}
        self._check_usable(kind)
        try:
            with contextlib.suppress(errors.ConnectionLostError):
                await self._socket.send(text)  # what was said before a hang-up can still be read
            reply = await self._socket.receive()
        except errors.OpenEnvGymError as error:
            if isinstance(self._why_closed, errors.SessionClosedError):
                raise self._why_closed from error
            self._end(error)
            raise
        try:
            return read_reply(reply, kind.reply)
        except errors.OpenEnvGymError as error:
            if error.data.get("openenv_code") in _LAST_CODES:
                self._end(error)
            raise

    def _end(self, why: errors.OpenEnvGymError) -> None:
        """Note that the session is over; nothing more can be told apart on this connection."""
        if self._why_closed is None:
            self._why_closed = why
            self._socket.abort()

    def _check_usable(self, kind: RequestType) -> None:
        if os.getpid() != self._owner_pid:
            raise errors.ForkedSessionError(
                f"This session was opened in process {self._owner_pid}, and this is its forked "
                f"child {os.getpid()}.",
                hint="Make the client inside the child.",
            )
        why = self._why_closed
        if isinstance(why, errors.SessionClosedError):
            raise errors.SessionClosedError(
                f"Cannot {kind.value}: the environment is closed.", hint="Make a new one."
            )
        if why is not None:
            raise errors.SessionLostError(
                f"Cannot {kind.value}: the session has ended. {why.message}", hint="Make a new one."
            ) from why


class _Turn:
    """A request's place in the order; `wanted` until its caller has given up."""

    __slots__ = ("wanted",)

    def __init__(self) -> None:
        self.wanted = True


def _note_exception(task: asyncio.Task[Any]) -> None:
    """Take the exception of a request that nobody waits for, which asyncio would complain of."""
    if not task.cancelled():
        task.exception()
