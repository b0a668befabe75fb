"""The blocking client of one session: requests in, values out, resumed when a connection breaks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from openenv_gym import errors
from openenv_gym._version import __version__
from openenv_gym.client.address import Address
from openenv_gym.client.transport import Frame, Transport, encode_message
from openenv_gym.protocol.client_session import ClientSession, ClientState
from openenv_gym.protocol.codec import decode_packet
from openenv_gym.protocol.limits import Limits
from openenv_gym.protocol.messages import Failure, Request, Result, error_from_wire


__all__ = ["Connection", "Timing"]

_AGENT = f"openenv-gym/{__version__}"
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
        token: Credential for the server.
        wait_s: How long to wait for a free place.
        timeout_s: Limit of each request, and of opening the session.
        connect_timeout_s: Limit of connecting and shaking hands.
        why_lost: Asked when the server cannot be reached any more; what it says ends the attempts
            to resume and becomes part of the error.

    Raises:
        OpenEnvGymError: The session cannot be opened; see `Transport` and the server's errors.
    """

    def __init__(
        self,
        address: Address,
        options: dict[str, Any],
        *,
        token: str | None = None,
        wait_s: float = 0.0,
        timeout_s: float = 120.0,
        connect_timeout_s: float = 10.0,
        max_frame_bytes: int = Limits.max_frame_bytes,
        why_lost: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.last_timing = Timing(0, 0, 0, 0, 0)
        self.frames_sent = 0
        self._address = address
        self._headers: Mapping[str, str] = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._why_lost = why_lost
        self._lock = threading.Lock()
        self._session = ClientSession(
            _AGENT, {"options": options, "wait_s": wait_s}, max_frame_bytes=max_frame_bytes
        )
        self._transport: Transport | None = None
        self._connect(timeout_s + wait_s)

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
            SessionClosedError: The session has ended.
            ForkedSessionError: This is a forked child of the process that opened the session.
            OpenEnvGymError: What the server answered.
        """
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        with self._lock:
            session = self._session
            session.check_owner()
            begin_ns = time.perf_counter_ns()
            request = session.request(op, args, options or {})
            frame = encode_message(request.to_wire())
            self._check_size(frame)
            session.sent(request, frame)
            encoded_ns = time.perf_counter_ns()
            try:
                self._send(frame)
                reply, data_ns, done_ns = self._await(request, time.monotonic() + limit_s, limit_s)
            except BaseException as error:
                session.abandon(request.id, encode_message(request.without_effect().to_wire()))
                if not isinstance(error, errors.DeadlineExceededError):
                    # Bytes may be lost between the socket and us: only a resume is safe.
                    self._drop()
                raise
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
        """End the session; safe to call twice, and in a forked child, where it ends nothing."""
        with self._lock:
            session = self._session
            if session.state is ClientState.CLOSED:
                return
            if not session.owned:
                session.close()
                self._drop()
                return
            try:
                if session.state is ClientState.OPEN and self._transport is not None:
                    request = session.request("close", [], {})
                    frame = encode_message(request.to_wire())
                    session.sent(request, frame)
                    self._transport.send(frame)
                    self._await(request, time.monotonic() + timeout_s, timeout_s)
            except (errors.OpenEnvGymError, OSError):
                pass  # it ends all the same, by the server's grace period at the latest
            finally:
                session.close()
                self._drop()

    def _check_size(self, frame: Frame) -> None:
        size_bytes = sum(map(len, frame))
        limit_bytes = self._session.limits.get("max_frame_bytes", size_bytes)
        if size_bytes > limit_bytes:
            raise errors.FrameTooLargeError(
                f"The message has {size_bytes} bytes, the server takes {limit_bytes}.",
                hint="Send less, or start the server with a higher --max-frame-bytes.",
                data={"size_bytes": size_bytes, "max_bytes": limit_bytes},
            )

    def _send(self, frame: Frame) -> None:
        """Send a frame; on a new connection, the resume sends what is pending."""
        if self._transport is None:
            self._reconnect(time.monotonic() + self._connect_timeout_s)
            return
        try:
            self._transport.send(frame)
            self.frames_sent += 1
        except OSError:
            self._drop()
            self._reconnect(time.monotonic() + self._connect_timeout_s)

    def _await(
        self, request: Request, end_s: float, limit_s: float
    ) -> tuple[Result | Failure, int, int]:
        left_s = limit_s
        while True:
            try:
                assert self._transport is not None
                data = self._transport.receive(left_s)
            except TimeoutError:
                raise errors.DeadlineExceededError(
                    f"No answer to {request.op} within {limit_s:g} s.",
                    hint="Call reset() to go on, or raise timeout_s.",
                    data={"op": request.op, "timeout_s": limit_s},
                ) from None
            except OSError:
                self._drop()
                self._reconnect(min(end_s, time.monotonic() + self._connect_timeout_s))
                continue
            data_ns = time.perf_counter_ns()
            reply = self._session.receive(decode_packet(data))
            done_ns = time.perf_counter_ns()
            if reply is not None and reply.id == request.id:
                return reply, data_ns, done_ns
            left_s = max(end_s - time.monotonic(), 0.001)

    # -- connections --------------------------------------------------------------------------

    def _connect(self, timeout_s: float) -> None:
        """Open a connection and the session, or take the session up again."""
        session = self._session
        transport = Transport(
            self._address,
            headers=self._headers,
            timeout_s=self._connect_timeout_s,
            max_frame_bytes=session.max_frame_bytes,
        )
        try:
            transport.send(encode_message(session.hello()))
            again = session.welcome(transport.receive_message(timeout_s))
            for frame in again:
                transport.send(frame)
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
        """Resume the session, trying for a while."""
        attempt = 0
        while True:
            try:
                self._connect(max(end_s - time.monotonic(), 0.5))
                return
            except (errors.ServerUnreachableError, errors.DeadlineExceededError) as error:
                why = self._why_lost()
                wait_s = _RETRY_S[min(attempt, len(_RETRY_S) - 1)]
                if why is None and time.monotonic() + wait_s < end_s:
                    time.sleep(wait_s)
                    attempt += 1
                    continue
                self._session.close()
                raise errors.ConnectionLostError(
                    why
                    or f"The connection to {self._address} broke and cannot be resumed: {error}",
                    hint="Make a new environment.",
                ) from error

    def _drop(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close(polite=False)
        self._session.lost()
