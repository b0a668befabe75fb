"""The blocking client of one session: requests in, values out, resumed when a connection breaks."""

from __future__ import annotations

import time
from typing import Any

from openenv_gym import errors
from openenv_gym.client.link import seconds
from openenv_gym.client.pending import Timing
from openenv_gym.client.pipeline import Pipeline
from openenv_gym.client.transport import Frame, encode_message
from openenv_gym.protocol.client_session import ClientState
from openenv_gym.protocol.codec import decode_packet
from openenv_gym.protocol.messages import (
    Failure,
    Request,
    Result,
    error_to_wire,
)


__all__ = ["Connection"]

_BUSY_S = 0.5  # so long close() waits for a request in another thread before it breaks it off


class Connection(Pipeline):
    """One session with a server, usable from any thread, one request at a time.

    Args:
        address: Where the server is.
        options: What the environment is made with.
        package: Environment package that the server must serve; None for any.
        token: Credential for the server.
        vector: Several environments in one session (docs/protocol.md, section 4.5).
        multi_agent: An environment with several agents (docs/protocol.md, section 4.8).
        wait_s: How long to wait for a free place.
        timeout_s: Limit of each request, and of opening the session.
        connect_timeout_s: Limit of connecting and shaking hands; 10 s, or `timeout_s` where that is
            less.
        why_lost: Asked once a second while nothing comes, and when the server cannot be reached
            any more; what it says ends the session and becomes part of the error.
        log_tail: Returns the last lines that the server wrote, for errors about its limits.

    Attributes:
        on_extras: Called with the extras of every reply, in order, also of replies that are errors
            and of those that nobody waits for any more: the server counts them as known.

    Raises:
        InvalidOptionError: A limit is no number of seconds.
        OpenEnvGymError: The session cannot be opened; see `Transport` and the server's errors.
    """

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
        limit_s = self._timeout_s if timeout_s is None else seconds("timeout_s", timeout_s)
        session = self._session
        session.check_owner()  # before the lock: a fork may have copied it locked, for ever
        with self._lock:
            if self._busy:
                raise self._in_the_middle(op)
            self._busy = True
            try:
                self._make_room(op, time.monotonic() + limit_s)
                request, frame, begin_ns, encoded_ns = self._prepare(op, args, options)
                try:
                    reply, data_ns, done_ns = self._exchange(request, frame, limit_s)
                except BaseException as error:
                    self._give_up(request, error)
                    raise
            except errors.OpenEnvGymError:
                raise
            except BaseException:
                self._drop()  # Ctrl-C may have left a request that has an id and was never sent
                raise
            finally:
                self._busy = False
        if isinstance(reply, Failure):
            raise self._error_of(reply)
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
            if self._awaited:  # by another thread, or by the one that this handler interrupted
                self._break_off()
                self._drop()
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

    def forget(self) -> None:
        """Drop the session without a word, and what may be under way; safe to call twice."""
        self._session.close()
        if not self._session.owned:  # before the lock, see `call`
            self._drop()
        elif self._lock.acquire(timeout=_BUSY_S):
            try:
                self._drop()
            finally:
                self._lock.release()
        else:
            self._break_off()

    def _break_off(self) -> None:
        """Close under a request: whoever waits for it wakes up."""
        self._session.close("It was closed during a request.")
        transport = self._transport
        if transport is not None:
            transport.shut_down()

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
            except errors.FrameTooLargeError as error:
                # A resume would bring the same reply again, so it counts as received.
                skipped = self._session.skip()
                if skipped == request.id:
                    raise
                if skipped is not None:
                    self._deliver(Failure(skipped, error_to_wire(error)), time.perf_counter_ns())
                self._drop()
                self._reconnect(end_s)
                continue
            data_ns = time.perf_counter_ns()
            reply = self._session.receive(decode_packet(data, self._memory))
            done_ns = time.perf_counter_ns()
            if reply is not None:
                if reply.extras and self.on_extras is not None:
                    self.on_extras(reply.extras)
                if reply.id == request.id:
                    return reply, data_ns, done_ns
                self._deliver(reply, data_ns)
            left_s = end_s - time.monotonic()
            if left_s <= 0:  # also where a server keeps talking of other things
                raise _too_late(request, limit_s)


def _too_late(request: Request, limit_s: float) -> errors.DeadlineExceededError:
    return errors.DeadlineExceededError(
        f"No answer to {request.op} within {limit_s:g} s.",
        hint="Call reset() to go on, or raise timeout_s.",
        data={"op": request.op, "timeout_s": limit_s},
    )
