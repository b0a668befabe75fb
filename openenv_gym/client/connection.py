"""The blocking client of one session: requests in, values out, resumed when a connection breaks."""

from __future__ import annotations

import functools
import numbers
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from openenv_gym import errors
from openenv_gym._version import __version__
from openenv_gym.client.address import Address, Loss, not_lost
from openenv_gym.client.transport import Frame, Transport, encode_message
from openenv_gym.protocol.client_session import ClientSession, ClientState
from openenv_gym.protocol.codec import decode_packet
from openenv_gym.protocol.limits import Limits
from openenv_gym.protocol.messages import Failure, Request, Result, error_from_wire


__all__ = ["Connection", "Timing"]

_AGENT = f"openenv-gym/{__version__}"
_CONNECT_S = 10.0
_BUSY_S = 0.5  # so long close() waits for a request in another thread before it breaks it off
_MAX_S = 1e6
_RETRY_S = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class Timing(NamedTuple):
    """Where the time of one request went, in nanoseconds.

    Attributes:
        encode: Making the message, here.
        wire: Sending, receiving and waking up; everything that is not named otherwise.
        queue: Waiting in the server.
        environment: The environment itself.
        decode: Reading the message, here.
    """

    encode: int
    wire: int
    queue: int
    environment: int
    decode: int


class Connection:
    """One session with a server, usable from any thread, one request at a time.

    Args:
        address: Where the server is.
        options: What the environment is made with.
        package: Environment package that the server must serve; None for any.
        token: Credential for the server.
        wait_s: How long to wait for a free place.
        timeout_s: Limit of each request, and of opening the session.
        connect_timeout_s: Limit of connecting and shaking hands; 10 s, or `timeout_s` where that is
            less.
        why_lost: Asked once a second while nothing comes, and when the server cannot be reached
            any more; what it says ends the session and becomes part of the error.

    Attributes:
        on_extras: Called with the extras of every reply, in order, also of replies that are errors
            and of those that nobody waits for any more: the server counts them as known.

    Raises:
        InvalidOptionError: A limit is no number of seconds.
        OpenEnvGymError: The session cannot be opened; see `Transport` and the server's errors.
    """

    def __init__(
        self,
        address: Address,
        options: dict[str, Any],
        *,
        package: str | None = None,
        token: str | None = None,
        wait_s: float = 0.0,
        timeout_s: float = 120.0,
        connect_timeout_s: float | None = None,
        max_frame_bytes: int = Limits.max_frame_bytes,
        why_lost: Loss = not_lost,
    ) -> None:
        self._timeout_s = _seconds("timeout_s", timeout_s)
        wait_s = _seconds("wait_s", wait_s, zero=True)
        self._connect_timeout_s = (
            min(_CONNECT_S, self._timeout_s)
            if connect_timeout_s is None
            else _seconds("connect_timeout_s", connect_timeout_s)
        )
        self.last_timing = Timing(0, 0, 0, 0, 0)
        self.frames_sent = 0
        self.on_extras: Callable[[dict[str, Any]], None] | None = None
        self._address = address
        self._headers: Mapping[str, str] = {"Authorization": f"Bearer {token}"} if token else {}
        self._why_lost = why_lost
        # A signal handler may come back here in the thread that is in a request: `_busy` tells.
        self._lock = threading.RLock()
        self._busy = False
        opening: dict[str, Any] = {"options": options, "wait_s": wait_s}
        if package is not None:
            opening["package"] = package
        self._session = ClientSession(_AGENT, opening, max_frame_bytes=max_frame_bytes)
        self._transport: Transport | None = None
        self._connect(self._timeout_s + wait_s, self._connect_timeout_s)

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

    # -- requests -----------------------------------------------------------------------------

    def call(
        self,
        op: str,
        args: list[Any],
        options: dict[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Result:
        """Run one operation and return its result.

        Whatever interrupts the wait (a time limit, Ctrl-C), the session stays usable: a late reply
        is dropped.

        Raises:
            DeadlineExceededError: No answer came in time.
            ConnectionLostError: The server is gone, and the session with it.
            SessionClosedError: The session has ended, maybe by `close` during this request.
            SessionError: A signal handler asks in the middle of a request.
            ForkedSessionError: This is a forked child of the process that opened the session.
            OpenEnvGymError: What the server answered.
        """
        limit_s = self._timeout_s if timeout_s is None else _seconds("timeout_s", timeout_s)
        session = self._session
        session.check_owner()  # before the lock: a fork may have copied it locked, for ever
        with self._lock:
            if self._busy:
                raise errors.SessionError(
                    f"Cannot {op}: this thread is in the middle of another request.",
                    hint="A signal handler can only close the environment.",
                )
            self._busy = True
            try:
                begin_ns = time.perf_counter_ns()
                request = session.request(op, args, options or {})
                frame = encode_message(request.to_wire())
                self._check_size(frame)
                session.sent(request, frame)
                encoded_ns = time.perf_counter_ns()
                try:
                    reply, data_ns, done_ns = self._exchange(request, frame, limit_s)
                except BaseException as error:
                    session.abandon(request.id, encode_message(request.without_effect().to_wire()))
                    if isinstance(error, errors.ConnectionLostError):
                        session.close(error.message)
                    if not isinstance(error, errors.DeadlineExceededError):
                        # Bytes may be lost between the socket and us: only a resume is safe.
                        self._drop()
                    raise
            finally:
                self._busy = False
        if isinstance(reply, Failure):
            raise error_from_wire(reply.error)
        queue_ns, environment_ns = reply.timing[0], reply.timing[1]
        self.last_timing = Timing(
            encoded_ns - begin_ns,
            max(data_ns - encoded_ns - queue_ns - environment_ns, 0),
            queue_ns,
            environment_ns,
            done_ns - data_ns,
        )
        return reply

    def close(self, timeout_s: float = 5.0) -> None:
        """End the session; safe to call twice, from signal handlers, and in a forked child.

        In a forked child it ends nothing. A request that is under way, in another thread or under
        a signal handler, is broken off and raises `SessionClosedError`.
        """
        session = self._session
        if not session.owned:  # before the lock, see `call`
            session.close()
            self._drop()
            return
        if not self._lock.acquire(timeout=min(timeout_s, _BUSY_S)):
            self._break_off()
            return
        try:
            if self._busy:
                self._break_off()
                return
            self._busy = True
            try:
                if session.state is ClientState.OPEN and self._transport is not None:
                    request = session.request("close", [], {})
                    frame = encode_message(request.to_wire())
                    session.sent(request, frame)
                    self._exchange(request, frame, timeout_s)
            except (errors.OpenEnvGymError, OSError):
                pass  # it ends all the same, by the server's grace period at the latest
            finally:
                session.close()
                self._drop()
                self._busy = False
        finally:
            self._lock.release()

    def _break_off(self) -> None:
        """Close under a request: whoever waits for it wakes up."""
        self._session.close("It was closed during a request.")
        transport = self._transport
        if transport is not None:
            transport.shut_down()

    def _check_size(self, frame: Frame) -> None:
        size_bytes = sum(map(len, frame))
        limit_bytes = self._session.limits.get("max_frame_bytes", size_bytes)
        if size_bytes > limit_bytes:
            raise errors.FrameTooLargeError(
                f"The message has {size_bytes} bytes, the server takes {limit_bytes}.",
                hint="Send less, or start the server with a higher --max-frame-bytes.",
                data={"size_bytes": size_bytes, "max_bytes": limit_bytes},
            )

    def _exchange(
        self, request: Request, frame: Frame, limit_s: float
    ) -> tuple[Result | Failure, int, int]:
        """Send a request and wait for its reply; return when it came and when it was read."""
        end_s = time.monotonic() + limit_s
        try:
            if self._transport is None:
                self._reconnect(end_s)  # which sends what is pending
            else:
                self._transport.send(frame, limit_s)
                self.frames_sent += 1
        except (BrokenPipeError, ConnectionResetError):
            pass  # what the server said before it hung up can still be read
        except TimeoutError:
            self._drop()  # it may have a part of the frame
            raise _too_late(request, limit_s) from None
        except errors.OpenEnvGymError:
            raise
        except OSError:
            self._drop()
            self._reconnect(end_s)
        left_s = limit_s
        while True:
            try:
                assert self._transport is not None
                data = self._transport.receive(left_s)
            except errors.ConnectionLostError:
                raise
            except TimeoutError:
                raise _too_late(request, limit_s) from None
            except OSError:
                self._drop()
                self._reconnect(end_s)
                continue
            except errors.FrameTooLargeError:
                # A resume would bring the same reply again, so it counts as received.
                if self._session.skip() == request.id:
                    raise
                self._drop()
                self._reconnect(end_s)
                continue
            data_ns = time.perf_counter_ns()
            reply = self._session.receive(decode_packet(data))
            done_ns = time.perf_counter_ns()
            if reply is not None:
                if reply.extras and self.on_extras is not None:
                    self.on_extras(reply.extras)
                if reply.id == request.id:
                    return reply, data_ns, done_ns
            left_s = max(end_s - time.monotonic(), 0.001)

    # -- connections --------------------------------------------------------------------------

    def _connect(self, timeout_s: float, connect_timeout_s: float) -> None:
        """Open a connection and the session, or take the session up again."""
        session = self._session
        transport = Transport(
            self._address,
            headers=self._headers,
            timeout_s=connect_timeout_s,
            max_frame_bytes=session.max_frame_bytes,
            why_lost=functools.partial(_why_no_more, session, self._why_lost),
        )
        try:
            transport.send(encode_message(session.hello()))
            again = session.welcome(transport.receive_message(timeout_s))
            for frame in again:
                transport.send(frame, timeout_s)
        except errors.OpenEnvGymError:
            transport.close(polite=False)
            raise
        except TimeoutError as error:
            transport.close(polite=False)
            raise errors.DeadlineExceededError(
                f"The server at {self._address} did not make the environment in {timeout_s:g} s."
            ) from error
        except OSError as error:
            transport.close(polite=False)
            raise errors.ServerUnreachableError(
                f"The server at {self._address} broke the connection off: {error}."
            ) from error
        except BaseException:
            transport.close(polite=False)
            raise
        self._transport = transport

    def _reconnect(self, end_s: float) -> None:
        """Resume the session, trying for a while.

        Raises:
            ConnectionLostError: Nobody answers.
            SessionClosedError: It was closed meanwhile.
        """
        session = self._session
        end_s = min(end_s, time.monotonic() + self._connect_timeout_s)
        attempt = 0
        while True:
            session.check_open("go on")
            try:
                left_s = max(end_s - time.monotonic(), 0.5)
                self._connect(left_s, left_s)
                return
            except (errors.ServerUnreachableError, errors.DeadlineExceededError) as error:
                lost = self._why_lost()
                gone = session.going_away is not None and isinstance(
                    error.__cause__, (FileNotFoundError, ConnectionRefusedError)
                )
                wait_s = _RETRY_S[min(attempt, len(_RETRY_S) - 1)]
                if lost is None and not gone and time.monotonic() + wait_s < end_s:
                    time.sleep(wait_s)
                    attempt += 1
                    continue
                if lost is None:
                    lost = errors.ConnectionLostError(
                        f"The connection to {self._address} broke and cannot be resumed: {error}",
                        hint="Make a new environment.",
                    )
                if session.going_away is not None:
                    lost.message += f" Before, the server said that it stops: {session.going_away}."
                raise lost from error

    def _drop(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close(polite=False)
        self._session.lost()


def _why_no_more(session: ClientSession, why_lost: Loss) -> errors.ConnectionLostError | None:
    """Tell a transport whether to wait on; bound to the session only, so that no cycle arises."""
    session.check_open("go on")
    return why_lost()


def _too_late(request: Request, limit_s: float) -> errors.DeadlineExceededError:
    return errors.DeadlineExceededError(
        f"No answer to {request.op} within {limit_s:g} s.",
        hint="Call reset() to go on, or raise timeout_s.",
        data={"op": request.op, "timeout_s": limit_s},
    )


def _seconds(name: str, value: Any, *, zero: bool = False) -> float:
    """Check a limit.

    Raises:
        InvalidOptionError: It is none.
    """
    number = not isinstance(value, bool) and isinstance(value, numbers.Real)
    if number and (0 < value <= _MAX_S or (zero and value == 0)):  # false for nan
        return float(value)
    raise errors.InvalidOptionError(
        f"{name} is {value!r:.80}, expected a finite number of seconds, "
        f"{'at least' if zero else 'above'} 0 and at most {_MAX_S:g}.",
        field=name,
    )
