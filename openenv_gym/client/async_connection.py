"""The client of one session on asyncio: what `Connection` is for blocking callers.

Requests get their ids in the order in which they are made, and wait in a queue; one task of the
connection sends them, takes replies, and resumes the session where the connection broke. So a
caller that is cancelled leaves nothing half done.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

from openenv_gym import errors
from openenv_gym._version import __version__
from openenv_gym.client.address import Address, Loss, no_log, not_lost, parse_base_url
from openenv_gym.client.async_link import AsyncLink
from openenv_gym.client.link import seconds
from openenv_gym.client.outgoing import Outgoing, decode
from openenv_gym.client.web_socket import WebSocket, WebSocketOptions
from openenv_gym.protocol.client_session import ClientSession
from openenv_gym.protocol.limits import SUBPROTOCOL
from openenv_gym.protocol.messages import Failure, Result, error_from_wire, error_to_wire


__all__ = ["AsyncConnection"]

_AGENT = f"openenv-gym/{__version__}"
_ASK_S = 1.0  # so often somebody who waits asks whether the server still runs


class AsyncConnection(AsyncLink):
    """One session with a server, usable from one event loop, by any number of tasks.

    Args:
        socket: An open WebSocket on which our subprotocol was chosen; `open` makes one.
        session: The session that is to be opened on it.
        options: How further WebSockets are opened, for resuming.
        timeout_s: Limit of each request.
        why_lost: Asked once a second while nothing comes, and when the server cannot be reached
            any more; what it says ends the session.
        log_tail: Returns the last lines that the server wrote, for errors about its limits.
    """

    @classmethod
    async def open(
        cls,
        address: Address | str,
        environment: dict[str, Any] | None = None,
        options: WebSocketOptions | None = None,
        *,
        package: str | None = None,
        wait_s: float = 0.0,
        timeout_s: float = 120.0,
        why_lost: Loss = not_lost,
        log_tail: Callable[[], str] = no_log,
    ) -> AsyncConnection:
        """Connect to a server and open a session.

        Args:
            address: Where it is: an address, or a URL.
            environment: What the environment is made with.
            options: Headers, token, limits.
            package: Environment package that the server must serve; None for any.
            wait_s: How long to wait for a free place.
            timeout_s: Limit of each request, and of opening the session.
            why_lost: See the class.
            log_tail: See the class.

        Raises:
            NotAnOpenEnvServerError: The server does not speak this protocol.
            OpenEnvGymError: The session cannot be opened; see `WebSocket.open` and the server's
                errors.
        """
        if isinstance(address, str):
            address = parse_base_url(address)
        options = options or WebSocketOptions()
        seconds("timeout_s", timeout_s)
        socket = await WebSocket.open(
            address, options, subprotocols=[SUBPROTOCOL], why_lost=why_lost
        )
        if socket.subprotocol != SUBPROTOCOL:
            await socket.close()
            raise errors.NotAnOpenEnvServerError(
                f"The WebSocket server at {address} does not speak {SUBPROTOCOL}."
            )
        return await cls.begin(
            socket,
            environment,
            options,
            package=package,
            wait_s=wait_s,
            timeout_s=timeout_s,
            why_lost=why_lost,
            log_tail=log_tail,
        )

    @classmethod
    async def begin(
        cls,
        socket: WebSocket,
        environment: dict[str, Any] | None,
        options: WebSocketOptions,
        *,
        package: str | None = None,
        wait_s: float = 0.0,
        timeout_s: float = 120.0,
        why_lost: Loss = not_lost,
        log_tail: Callable[[], str] = no_log,
    ) -> AsyncConnection:
        """Open a session on a WebSocket on which our subprotocol was chosen; see `open`."""
        opening: dict[str, Any] = {
            "options": environment or {},
            "wait_s": seconds("wait_s", wait_s, zero=True),
        }
        if package is not None:
            opening["package"] = package
        session = ClientSession(_AGENT, opening, max_frame_bytes=options.max_message_bytes)
        try:
            self = cls(
                socket,
                session,
                options,
                timeout_s=timeout_s,
                why_lost=why_lost,
                log_tail=log_tail,
            )
            await self._shake_hands(socket, timeout_s + wait_s)
        except BaseException:
            socket.abort()
            raise
        self._driver = asyncio.create_task(self._drive())
        return self

    async def request(
        self,
        op: str,
        args: list[Any],
        options: dict[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Result:
        """Run one operation (docs/protocol.md, section 4.2) and return its result.

        Operations of several tasks run in the order in which they were asked for. Whatever
        interrupts the wait (the time limit, a cancellation), the session stays usable: a late
        reply is dropped.

        Args:
            op: Name of the operation.
            args: Its arguments.
            options: Options of the request.
            timeout_s: Limit of this request; that of the connection by default.

        Raises:
            DeadlineExceededError: No answer came in time.
            ConnectionLostError: The server is gone, and the session with it.
            SessionClosedError: The session has ended, maybe by `close` during this request.
            ForkedSessionError: This is a forked child of the process that opened the session.
            OpenEnvGymError: What the server answered.
        """
        limit_s = self._timeout_s if timeout_s is None else seconds("timeout_s", timeout_s)
        self._session.check_owner()
        request = self._session.request(op, args, options or {})
        outgoing = Outgoing(request, self._largest_bytes())
        # From here to the end of the block nothing waits, so that ids go out in order.
        self._session.sent(request, outgoing)
        self._outbox.append(outgoing)
        self._awaited[request.id] = outgoing
        self._wake.set()
        try:
            await self._wait(outgoing.reply, limit_s)
        finally:
            if self._awaited.pop(request.id, None) is not None:
                outgoing.withdraw()  # where it was not sent yet, or must be sent again
        if not outgoing.reply.done():
            raise errors.DeadlineExceededError(
                f"No answer to {op} within {limit_s:g} s.",
                hint="Call reset() to go on, or raise the time limit.",
                data={"op": op, "timeout_s": limit_s},
            )
        answer = outgoing.reply.result()
        if isinstance(answer, Failure):
            raise await self._error_of(answer)
        return answer

    async def _error_of(self, reply: Failure) -> errors.OpenEnvGymError:
        """Return what the server answered, with its last lines where it ran into a limit."""
        error = error_from_wire(reply.error)
        if not isinstance(error, errors.LimitReachedError) or self._log_tail is no_log:
            return error
        if log := await asyncio.to_thread(self._log_tail):
            error.data["log"] = log
        return error

    async def close(self, timeout_s: float = 5.0) -> None:
        """End the session; safe to repeat. In a forked child it ends nothing.

        A request that is under way is broken off and raises `SessionClosedError`.
        """
        session = self._session
        if not session.owned:
            session.close()
            return
        driver, self._driver = self._driver, None
        if driver is None:
            return
        socket = None
        try:
            if not driver.done() and not self._awaited and self._socket is not None:
                # It ends all the same, by the server's grace period at the latest.
                with contextlib.suppress(errors.OpenEnvGymError):
                    await self.request("close", [], timeout_s=timeout_s)
            socket, self._socket = self._socket, None
            self._give_up(driver)
            await asyncio.wait({driver})
            if socket is not None:
                await socket.close()
        except BaseException:  # cancelled: nobody closes it again
            self._give_up(driver)
            if socket is not None:
                socket.abort()
            raise

    def _give_up(self, driver: asyncio.Task[None]) -> None:
        self._session.close()
        self._fail(errors.SessionClosedError("The environment was closed during a request."))
        driver.cancel()

    # -- the connection's own task ------------------------------------------------------------

    async def _drive(self) -> None:
        """Send what waits and take what comes, over one connection after the other."""
        try:
            while True:
                if self._socket is None:
                    await self._wake.wait()  # nothing is resumed that nobody asks for
                    await self._reconnect()
                assert self._socket is not None
                try:
                    await self._use(self._socket)
                except errors.ConnectionLostError:
                    self._drop()
                except errors.FrameTooLargeError as error:
                    if error.data.get("by") != "client":
                        raise
                    # A resume would bring the same reply again, so it counts as received.
                    skipped = self._session.skip()
                    if skipped is not None:
                        self._deliver(Failure(skipped, error_to_wire(error)))
                    self._drop()
                except errors.ProtocolError as error:
                    self._fail(error)
                    self._drop()
        except errors.OpenEnvGymError as error:
            self._session.close(error.message)
            self._drop()
            self._fail(error)
        except asyncio.CancelledError:
            self._drop()  # the loop ends, and nobody closed this; a session left to its grace
            raise

    async def _use(self, socket: WebSocket) -> None:
        sending = asyncio.create_task(self._send_all(socket))
        try:
            while True:
                reply = self._session.receive(decode(await socket.receive()))
                if reply is not None:
                    self._deliver(reply)
        finally:
            sending.cancel()
            await asyncio.wait({sending})

    async def _send_all(self, socket: WebSocket) -> None:
        # The end of the connection shows in what is received, after what the server said before.
        with contextlib.suppress(errors.ConnectionLostError, errors.FrameTooLargeError):
            while True:
                while self._outbox and self._on_their_way() < self._max_pipelined():
                    await socket.send(self._outbox.popleft().packet)
                self._wake.clear()
                await self._wake.wait()

    def _deliver(self, reply: Result | Failure) -> None:
        outgoing = self._awaited.pop(reply.id or 0, None)
        if outgoing is not None and not outgoing.reply.done():
            outgoing.reply.set_result(reply)
        if self._outbox:
            self._wake.set()  # there may be room for more

    def _fail(self, error: errors.OpenEnvGymError) -> None:
        """Tell all who wait that their requests have failed."""
        awaited, self._awaited = self._awaited, {}
        wire = error_to_wire(error)
        for id_, outgoing in awaited.items():
            outgoing.withdraw()
            if not outgoing.reply.done():
                outgoing.reply.set_result(Failure(id_, wire))

    # -- waiting ------------------------------------------------------------------------------

    async def _wait(self, reply: asyncio.Future[Any], limit_s: float) -> None:
        """Wait for a reply, at most so long; ask now and then whether there is one to wait for."""
        end_s = time.monotonic() + limit_s
        watched = self._why_lost is not not_lost
        while not reply.done():
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                return
            await asyncio.wait({reply}, timeout=min(left_s, _ASK_S) if watched else left_s)
            if watched and not reply.done():
                lost = await asyncio.to_thread(self._why_lost)
                if lost is not None:
                    self._session.close(lost.message)
                    self._fail(lost)

    def _largest_bytes(self) -> int | None:
        return self._session.limits.get("max_frame_bytes")

    def _max_pipelined(self) -> int:
        return int(self._session.limits.get("max_pipelined", 1))

    def _on_their_way(self) -> int:
        return self._session.in_flight - len(self._outbox)
