"""What `AsyncConnection` stands on: the session, and the WebSocket of the moment."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from openenv_gym import errors
from openenv_gym.client.address import Address, Loss, no_log, not_lost
from openenv_gym.client.link import seconds
from openenv_gym.client.outgoing import Outgoing, decode, encode
from openenv_gym.client.web_socket import WebSocket, WebSocketOptions
from openenv_gym.protocol.client_session import ClientSession, ClientState
from openenv_gym.protocol.limits import SUBPROTOCOL


__all__ = ["AsyncLink"]

_RETRY_S = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class AsyncLink:
    """The link to a session's server: opened, resumed when it breaks, and dropped.

    Its arguments are those of `AsyncConnection`.
    """

    def __init__(
        self,
        socket: WebSocket,
        session: ClientSession,
        options: WebSocketOptions,
        *,
        timeout_s: float = 120.0,
        why_lost: Loss = not_lost,
        log_tail: Callable[[], str] = no_log,
    ) -> None:
        self._address = socket.address
        self._options = options
        self._timeout_s = seconds("timeout_s", timeout_s)
        self._why_lost = why_lost
        self._log_tail = log_tail
        self._session = session
        self._socket: WebSocket | None = socket
        self._awaited: dict[int, Outgoing] = {}
        self._outbox: deque[Outgoing] = deque()
        self._wake = asyncio.Event()
        self._driver: asyncio.Task[None] | None = None

    @property
    def environment(self) -> dict[str, Any]:
        """The map ``environment`` of WELCOME."""
        return self._session.environment

    @property
    def address(self) -> Address:
        """Where the server is."""
        return self._address

    @property
    def session_name(self) -> str:
        """Public name of the session."""
        return self._session.name

    @property
    def closed(self) -> bool:
        """The session has ended."""
        return self._session.state is ClientState.CLOSED

    @property
    def going_away(self) -> str | None:
        """Why the server is about to stop; None while it is not."""
        return self._session.going_away

    # -- connections --------------------------------------------------------------------------

    def _drop(self) -> None:
        socket, self._socket = self._socket, None
        self._session.lost()
        if socket is not None:
            socket.abort()
        if not self._awaited:
            self._wake.clear()
        else:
            self._wake.set()

    async def _shake_hands(self, socket: WebSocket, limit_s: float) -> None:
        """Open the session on a new connection, or take it up again."""
        session = self._session
        try:
            await socket.send(encode(session.hello()))
            answer = await asyncio.wait_for(socket.receive(), limit_s)
        except (asyncio.TimeoutError, TimeoutError) as error:
            raise errors.DeadlineExceededError(
                f"The server at {self._address} did not make the environment in {limit_s:g} s."
            ) from error
        except errors.ConnectionLostError as error:
            raise errors.ServerUnreachableError(error.message) from error
        again = session.welcome(decode(answer))
        self._outbox = deque(again)
        self._wake.set()

    async def _reconnect(self) -> None:
        """Resume the session, trying for a while.

        Raises:
            ConnectionLostError: Nobody answers.
            SessionLostError: The server does not know it any more.
        """
        end_s = time.monotonic() + self._options.connect_timeout_s
        attempt = 0
        while True:
            try:
                await self._connect_again()
                return
            except (errors.ServerUnreachableError, errors.DeadlineExceededError) as error:
                lost = await asyncio.to_thread(self._why_lost)
                gone = self._session.going_away is not None and isinstance(
                    error.__cause__, FileNotFoundError | ConnectionRefusedError
                )
                wait_s = _RETRY_S[min(attempt, len(_RETRY_S) - 1)]
                if lost is None and not gone and time.monotonic() + wait_s < end_s:
                    await asyncio.sleep(wait_s)
                    attempt += 1
                    continue
                if lost is None:
                    lost = errors.ConnectionLostError(
                        f"The connection to {self._address} broke and cannot be resumed: {error}",
                        hint="Make a new client.",
                    )
                if (reloaded := self._session.reloaded()) is not None:
                    raise reloaded from error
                if self._session.going_away is not None:
                    lost.message += (
                        f" Before, the server said that it stops: {self._session.going_away}."
                    )
                raise lost from error

    async def _connect_again(self) -> None:
        socket = await WebSocket.open(
            self._address, self._options, subprotocols=[SUBPROTOCOL], why_lost=self._why_lost
        )
        try:
            await self._shake_hands(socket, self._options.connect_timeout_s)
        except BaseException:
            socket.abort()
            raise
        self._socket = socket
