"""A WebSocket on which each request is answered once, in order, and nothing tells which is which.

So each request waits for the one before it, also for one whose caller has given up: its late reply
is taken by it, and never by another.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from typing import Any

from openenv_gym import errors
from openenv_gym.client.address import Address, Loss, not_lost
from openenv_gym.client.link import seconds
from openenv_gym.client.web_socket import WebSocket


__all__ = ["Lockstep"]

Read = Callable[[str | bytes], dict[str, Any]]

# A connection may break a moment before it is known that the server ended, and of what.
_KNOWN_S = 2.0
_ASK_EVERY_S = 0.05


class Lockstep:
    """One session: one WebSocket, one request at a time, in order; usable from one event loop.

    The session is the connection. Where that breaks, the episode is gone, and nothing is resumed.

    Args:
        socket: An open WebSocket.
        message_timeout_s: Limit of each request.
        why_lost: Tells why a server that is watched is gone; asked where the connection breaks.
    """

    def __init__(
        self, socket: WebSocket, *, message_timeout_s: float = 60.0, why_lost: Loss = not_lost
    ) -> None:
        self._socket = socket
        self._why_lost = why_lost
        self._timeout_s = seconds("message_timeout_s", message_timeout_s)
        self._owner_pid = os.getpid()
        self._last: asyncio.Task[dict[str, Any]] | None = None
        self._why_closed: errors.OpenEnvGymError | None = None

    @property
    def address(self) -> Address:
        """Where the server is."""
        return self._socket.address

    @property
    def closed(self) -> bool:
        """The session has ended."""
        return self._why_closed is not None or self._socket.closed

    async def exchange(
        self, op: str, text: str, read: Read, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Send a message and return what its reply is read as.

        Whatever interrupts the wait (the time limit, a cancellation), the session stays usable: a
        late reply is dropped. A request whose turn did not come in time is not sent.

        Args:
            op: What is asked, for errors.
            text: The message.
            read: Reads the reply. Where it raises, the session goes on, unless `is_last` says that
                the server ends it.
            timeout_s: Limit of this request; that of the connection by default.

        Raises:
            DeadlineExceededError: No answer came in time.
            FrameTooLargeError: A message was too large; the session has ended.
            ConnectionLostError: The connection broke, and the session with it.
            SessionClosedError: It was closed before.
            SessionLostError: It has ended before.
            ForkedSessionError: This is a forked child of the process that opened the session.
            OpenEnvGymError: What `read` raises.
        """
        limit_s = self._timeout_s if timeout_s is None else seconds("timeout_s", timeout_s)
        self._check_usable(op)
        turn = _Turn(op, text, read)
        task = asyncio.create_task(self._take_turn(turn, self._last))
        self._last = task
        try:
            await asyncio.wait({task}, timeout=limit_s)
        finally:
            turn.wanted = False
            task.add_done_callback(_note_exception)
        if task.done():
            return task.result()
        raise errors.DeadlineExceededError(
            f"No answer to {op} within {limit_s:g} s.",
            hint="Call reset() to go on, or raise the time limit.",
            data={"op": op, "timeout_s": limit_s},
        )

    async def close(self, goodbye: str | None = None) -> None:
        """End the session; safe to repeat. In a forked child it ends nothing.

        Args:
            goodbye: Sent ahead of the end, where nothing is under way.
        """
        closed_before = self._why_closed is not None
        if self._why_closed is None:
            self._why_closed = errors.SessionClosedError(
                "The environment is closed.", hint="Make a new one."
            )
        if os.getpid() != self._owner_pid:
            return
        idle = self._last is None or self._last.done()
        try:
            if goodbye is not None and idle and not closed_before:
                with contextlib.suppress(errors.OpenEnvGymError):  # it has ended all the same
                    await self._socket.send(goodbye)
            await self._socket.close()
        except BaseException:  # cancelled: nobody closes it again
            self._socket.abort()
            raise

    def is_last(self, error: errors.OpenEnvGymError) -> bool:
        """Tell whether the server ends the session after this error."""
        return False

    async def _take_turn(
        self, turn: _Turn, previous: asyncio.Task[dict[str, Any]] | None
    ) -> dict[str, Any]:
        """Wait for the turn of a request, send it and take its reply."""
        first = previous is None
        if previous is not None:
            await asyncio.wait({previous})
            del previous  # or each request would hold all those before it
        if not turn.wanted:
            return {}
        self._check_usable(turn.op)
        if not first:  # before that, a server that is full says so unasked
            await self._refuse_unasked(turn)
        try:
            with contextlib.suppress(errors.ConnectionLostError):
                await self._socket.send(turn.text)  # what was said before a hang-up is read below
            reply = await self._socket.receive()
        except errors.OpenEnvGymError as error:
            if isinstance(self._why_closed, errors.SessionClosedError):
                raise self._why_closed from error
            self._end(error)
            if isinstance(error, errors.ConnectionLostError) and (lost := await self._ask_why()):
                self._why_closed = lost
                raise lost from error
            raise
        try:
            return turn.read(reply)
        except errors.OpenEnvGymError as error:
            if self.is_last(error):
                self._end(error)
            raise

    async def _ask_why(self) -> errors.ConnectionLostError | None:
        """Return how the server ended, with its last lines, where somebody watches it."""
        if self._why_lost is not_lost:
            return None
        end_s = time.monotonic() + _KNOWN_S
        while (lost := await asyncio.to_thread(self._why_lost)) is None:
            if time.monotonic() > end_s:
                return None
            await asyncio.sleep(_ASK_EVERY_S)
        return lost

    async def _refuse_unasked(self, turn: _Turn) -> None:
        """End the session where a message lies there that answers nothing: it is one too many.

        There are no ids, so each later reply would be taken for that of the request before it. An
        error that a server says on its own before it hangs up is raised as what it is.
        """
        message = await self._socket.receive_ready()
        if message is None:
            return
        try:
            turn.read(message)
        except errors.OpenEnvGymError as error:
            self._end(error)
            raise
        unasked = errors.ProtocolError("The server sent a message that answers no request.")
        self._end(unasked)
        raise unasked

    def _end(self, why: errors.OpenEnvGymError) -> None:
        """Note that the session is over; nothing more can be told apart on this connection."""
        if self._why_closed is None:
            self._why_closed = why
            self._socket.abort()

    def _check_usable(self, op: str) -> None:
        if os.getpid() != self._owner_pid:
            raise errors.ForkedSessionError(
                f"This session was opened in process {self._owner_pid}, and this is its forked "
                f"child {os.getpid()}.",
                hint="Make the client inside the child.",
            )
        why = self._why_closed
        if isinstance(why, errors.SessionClosedError):
            raise errors.SessionClosedError(
                f"Cannot {op}: the environment is closed.", hint="Make a new one."
            )
        if why is not None:
            raise errors.SessionLostError(
                f"Cannot {op}: the session has ended. {why.message}", hint="Make a new one."
            ) from why


class _Turn:
    """A request and its place in the order; `wanted` until its caller has given up."""

    __slots__ = ("op", "read", "text", "wanted")

    def __init__(self, op: str, text: str, read: Read) -> None:
        self.op = op
        self.text = text
        self.read = read
        self.wanted = True


def _note_exception(task: asyncio.Task[Any]) -> None:
    """Take the exception of a request that nobody waits for, which asyncio would complain of."""
    if not task.cancelled():
        task.exception()
