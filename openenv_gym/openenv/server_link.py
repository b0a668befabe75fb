"""What a client knows of its server: where it is, whose it is, and the session there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import weakref
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from openenv_gym import errors
from openenv_gym.client.address import Address, no_log, not_lost
from openenv_gym.client.web_socket import WebSocketOptions
from openenv_gym.openenv.channels import Channel, Wire, open_channel
from openenv_gym.openenv.launching import Launch


if TYPE_CHECKING:
    from openenv_gym.providers import RunningServer

__all__ = ["LinkOptions", "ServerLink"]

_START_S = 60.0  # a server that starts imports its environment first


@dataclass(frozen=True)
class LinkOptions:
    """How sessions are opened.

    Attributes:
        socket: Headers, token, limits.
        protocol: What to speak.
        mode: ``"simulation"`` or ``"production"``.
        environment: What the environment is made with.
        message_timeout_s: Limit of each request.
    """

    socket: WebSocketOptions
    protocol: Wire = "auto"
    mode: str = "simulation"
    environment: dict[str, Any] = field(default_factory=dict)
    message_timeout_s: float = 60.0


class ServerLink:
    """The session of one client, opened by the first call, and the server where that is its own.

    It knows nothing of the client, and so is part of no reference cycle: a server whose client
    nobody holds any more ends at once, and so does its session.

    Args:
        options: How sessions are opened.
        address: Where the server is; None where it is still to be started.
        launch: Starts it.

    Attributes:
        server: The server that was started.
    """

    def __init__(
        self,
        options: LinkOptions,
        address: Address | None = None,
        launch: Launch | None = None,
        server: RunningServer | None = None,
    ) -> None:
        self.server = server
        self._options = options
        self._address = address
        self._launch = launch
        self._channel: Channel | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._owner_pid = os.getpid()
        self._opening = asyncio.Lock()
        self._over: str | None = None
        self._stop_server: weakref.finalize[Any, Any] | None = None
        self._abandon: weakref.finalize[Any, Any] | None = None

    @property
    def address(self) -> Address | None:
        """Where the server is; None where it is still to be started."""
        return self._address

    def sibling(self) -> ServerLink:
        """Return a link of another client to the same server, without a session yet."""
        return ServerLink(self._options, self._address, server=self.server)

    async def channel(self, op: str, *, anew: bool = False) -> Channel:
        """Return the session, which the first call opens.

        Args:
            op: What it is wanted for.
            anew: Where it was lost, open another one.

        Raises:
            SessionClosedError: The client was closed or disconnected.
            ConfigurationError: It was connected in another event loop.
            ForkedSessionError: It was connected in the parent process.
            OpenEnvGymError: The server does not start, or opens no session.
        """
        if self._over is not None:
            raise errors.SessionClosedError(
                f"Cannot {op}: this client has no session. {self._over}",
                hint="Call connect() first, or make a new client.",
            )
        self._check_place(op)
        async with self._opening:
            if anew and self._channel is not None and self._channel.closed:
                await self._drop()
            if self._channel is None:
                self._channel = await self._open()
                self._loop, self._owner_pid = asyncio.get_running_loop(), os.getpid()
                self._abandon = weakref.finalize(
                    self, _abandon, self._channel, self._loop, self._owner_pid
                )
                self._abandon.atexit = False  # loops end their connections then
            return self._channel

    async def connect(self) -> None:
        """Open a session where there is none; also after `disconnect`, a loss, or another loop."""
        self._over = None
        if self._loop is not None and self._loop.is_closed():
            self._take_channel()
        await self.channel("connect", anew=True)

    async def disconnect(self, why: str) -> None:
        """End the session, and open none before `connect`.

        Args:
            why: What was done, for errors.
        """
        self._over = why
        if self._is_orphaned():
            self._take_channel()
            return
        self._check_place("close")
        async with self._opening:  # what is being opened is to end, too
            await self._drop()

    async def stop_server(self) -> None:
        """Stop the server where it was started for this link; safe to repeat."""
        stop, self._stop_server = self._stop_server, None
        if stop is not None:
            self.server = self._address = None
            await asyncio.shield(asyncio.to_thread(stop))

    # -- opening ------------------------------------------------------------------------------

    async def _open(self) -> Channel:
        if self._address is not None:
            return await self._open_at(self._address)
        server = await self._start()
        try:
            return await self._open_at(server.address)
        except (errors.ServerUnreachableError, errors.ConnectionLostError) as error:
            lost = error if isinstance(error, errors.ConnectionLostError) else server.why_lost()
            # Before it is stopped, which takes the log with it.
            log = error.data.get("log") or server.log_tail()
            await self.stop_server()
            if isinstance(lost, errors.ServerOutOfMemoryError):
                raise lost from None
            raise errors.ServerStartError(
                f"The server ended before it was ready: {error.message}", data={"log": log}
            ) from error
        except BaseException:
            await self.stop_server()
            raise

    async def _open_at(self, address: Address) -> Channel:
        options, server, socket = self._options, self.server, self._options.socket
        if server is not None:
            socket = replace(
                socket,
                token=server.token or socket.token,
                connect_timeout_s=max(socket.connect_timeout_s, _START_S),
            )
        return await open_channel(
            address,
            socket,
            protocol=options.protocol,
            mode=options.mode,
            environment=options.environment,
            message_timeout_s=options.message_timeout_s,
            why_lost=not_lost if server is None else server.why_lost,
            log_tail=no_log if server is None else server.log_tail,
        )

    async def _start(self) -> RunningServer:
        """Start the server in a thread; where this is cancelled, it is stopped when it comes."""
        assert self._launch is not None
        starting = asyncio.ensure_future(asyncio.to_thread(self._launch))
        try:
            server = await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_stop_result)
            raise
        self.server, self._address = server, server.address
        # Also where nobody closes the client: when it goes, and at the end of the program.
        self._stop_server = weakref.finalize(self, server.stop)
        return server

    async def _drop(self) -> None:
        channel = self._take_channel()
        if channel is not None:
            await _close(channel)

    def _take_channel(self) -> Channel | None:
        channel, self._channel = self._channel, None
        if self._abandon is not None:
            self._abandon.detach()
        return channel

    # -- process and event loop ---------------------------------------------------------------

    def _is_orphaned(self) -> bool:
        """Tell whether the session cannot be reached from here, not even to end it."""
        return self._owner_pid != os.getpid() or (self._loop is not None and self._loop.is_closed())

    def _check_place(self, op: str) -> None:
        """Refuse to use the session from another process or event loop than its own."""
        if self._channel is None:
            return
        if self._owner_pid != os.getpid():
            raise errors.ForkedSessionError(
                f"Cannot {op}: this client was connected in process {self._owner_pid}, and this is "
                f"its forked child {os.getpid()}.",
                hint="Make the client inside the child.",
            )
        if self._loop is not asyncio.get_running_loop():
            why = "which is over" if self._is_orphaned() else "maybe by its blocking client"
            raise errors.ConfigurationError(
                f"Cannot {op}: this client was connected in another event loop, {why}.",
                hint="Make a client for each loop; use either the client or its sync(), not both.",
            )


def _stop_result(starting: asyncio.Future[RunningServer]) -> None:
    with contextlib.suppress(Exception, asyncio.CancelledError):
        server = starting.result()
        asyncio.get_running_loop().run_in_executor(None, server.stop)


_closing: set[asyncio.Task[None]] = set()
"""Held, because a loop does not hold its tasks."""


def _abandon(channel: Channel, loop: asyncio.AbstractEventLoop, owner_pid: int) -> None:
    """End the session of a client that nobody holds any more, from whatever thread."""
    if owner_pid == os.getpid():
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_close_later, channel)


def _close_later(channel: Channel) -> None:
    task = asyncio.get_running_loop().create_task(_close(channel))
    _closing.add(task)
    task.add_done_callback(_closing.discard)


async def _close(channel: Channel) -> None:
    with contextlib.suppress(errors.OpenEnvGymError):
        await channel.close()
