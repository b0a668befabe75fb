"""Requests that are begun and finished separately, so that one thread drives many servers."""

from __future__ import annotations

import time
from typing import Any

from openenv_gym import errors
from openenv_gym.client.link import Link
from openenv_gym.client.pending import Pending, Timing
from openenv_gym.client.transport import Frame, encode_message
from openenv_gym.protocol.codec import decode_packet
from openenv_gym.protocol.messages import (
    Failure,
    Request,
    Result,
    error_to_wire,
)


__all__ = ["Pipeline"]

_RESUME_S = 1.0


class Pipeline(Link):
    """What `Connection` does beside `call`; its arguments and attributes are there."""

    last_timing = Timing(0, 0, 0, 0, 0)

    def begin(
        self,
        op: str,
        args: list[Any],
        options: dict[str, Any] | None = None,
        *,
        landing: memoryview | None = None,
    ) -> Pending:
        """Send a request and return without its result, so that one thread drives many servers.

        `advance` or `finish` brings the result; several requests can be under way. Nothing here
        waits, but for a connection that broke, which is resumed first.

        Args:
            op: Name of the operation.
            args: Its arguments.
            options: Options of the request.
            landing: Memory where an array goes that the server leaves in shared memory, the first
                one that has as many bytes (docs/protocol.md, section 4.6).

        Raises:
            ConnectionLostError: The server is gone, and the session with it.
            SessionClosedError: The session has ended.
            SessionError: A signal handler asks in the middle of a request.
            ForkedSessionError: This is a forked child of the process that opened the session.
            DeadlineExceededError: As many requests as the server takes are without an answer.
            OpenEnvGymError: It cannot be sent.
        """
        session = self._session
        session.check_owner()  # before the lock, see `call`
        with self._lock:
            if self._busy:
                raise self._in_the_middle(op)
            self._busy = True
            try:
                self._make_room(op, None)
                request, frame, begin_ns, encoded_ns = self._prepare(op, args, options)
                pending = self._awaited[request.id] = Pending(
                    request, begin_ns, encoded_ns, landing
                )
                try:
                    if self._transport is None:
                        self._reconnect(time.monotonic() + self._timeout_s)  # sends what is pending
                    else:
                        self._transport.start(frame)
                        self.frames_sent += 1
                except errors.OpenEnvGymError as error:
                    self._give_up(request, error)
                    raise
                except OSError:
                    pass  # `advance` finds out, after what the server said before it hung up
                except BaseException as error:
                    self._give_up(request, error)
                    raise
            except errors.OpenEnvGymError:
                raise
            except BaseException:
                self._drop()  # as in `call`
                raise
            finally:
                self._busy = False
        return pending

    def advance(self, pending: Pending, end_s: float, *, ask: bool = False) -> Result | None:
        """Take what has arrived; return the result where it is here. Never waits for it.

        Args:
            pending: What `begin` returned.
            end_s: Until when a broken connection may be resumed, on the clock of
                `time.monotonic`. Above that the request stays under way.
            ask: Ask `why_lost` where nothing has arrived.

        Raises:
            OpenEnvGymError: As `call`; then the request is no longer under way.
        """
        return self._go_on(pending, end_s, wait=False, ask=ask)

    def finish(self, pending: Pending, end_s: float) -> Result | None:
        """Wait for the result until a time on the clock of `time.monotonic`; None if it is late.

        A request that is late stays under way, until `abandon`; so it does after Ctrl-C.

        Raises:
            OpenEnvGymError: As `call`; then the request is no longer under way.
        """
        return self._go_on(pending, end_s, wait=True, ask=False)

    def abandon(self, pending: Pending) -> None:
        """Stop waiting for a request: its reply, when it comes, is dropped. Safe to repeat."""
        if self._awaited.pop(pending.request.id, None) is not None:
            self._session.abandon(
                pending.request.id, encode_message(pending.request.without_effect().to_wire())
            )

    @property
    def under_way(self) -> int:
        """Requests that the server has not answered yet."""
        return self._session.in_flight

    def fileno(self) -> int:
        """Return the descriptor to wait for with `poll`; -1 where there is no connection now."""
        transport = self._transport
        return -1 if transport is None else transport.fileno()

    @property
    def unsent(self) -> bool:
        """A part of a request waits until the socket takes it: wait for that with `poll`, too."""
        return self._transport is not None and self._transport.unsent

    @property
    def holds_bytes(self) -> bool:
        """`advance` may have something to do that `poll` does not see."""
        return self._transport is None or self._transport.holds_bytes

    def _go_on(self, pending: Pending, end_s: float, *, wait: bool, ask: bool) -> Result | None:
        if pending.reply is None:
            self._session.check_owner()  # before the lock, see `call`
            with self._lock:
                if self._busy:
                    raise self._in_the_middle(pending.request.op)
                self._busy = True
                try:
                    self._receive_until(pending, end_s, wait)
                    if ask and pending.reply is None:
                        lost = self._ask_why_lost()
                        if lost is not None:
                            raise lost
                except errors.OpenEnvGymError as error:
                    self._give_up(pending.request, error)
                    raise
                except BaseException:
                    # Bytes may be lost between the socket and us; a resume brings them again.
                    self._drop()
                    raise
                finally:
                    self._busy = False
        reply = pending.reply
        if isinstance(reply, Result):
            if pending.request.op == "close":
                self._session.close()
                self._drop()
            self._note_timing(reply, pending)
            return reply
        if reply is None:
            return None
        raise self._error_of(reply)

    def _receive_until(self, pending: Pending, end_s: float, wait: bool) -> None:
        """Take messages until the reply is here, nothing more is, or the time is over."""
        while pending.reply is None and self._receive_one(end_s, wait):
            pass

    def _receive_one(self, end_s: float, wait: bool) -> bool:
        """Take a message, if there is one; tell whether to look for more: there is time, too."""
        try:
            transport = self._transport
            if transport is None:
                self._resume(end_s)
                return True
            if wait:
                data = transport.receive(max(end_s - time.monotonic(), 0.0))
            elif (found := transport.receive_ready()) is not None:
                data = found
            else:
                return False
            self._take(data)
            return time.monotonic() <= end_s  # also where a server talks of other things
        except errors.FrameTooLargeError as error:
            # A resume would bring the same reply again, so it counts as received.
            skipped = self._session.skip()
            if skipped is not None:
                self._deliver(Failure(skipped, error_to_wire(error)), time.perf_counter_ns())
            self._drop()  # its bytes are still on their way
        except errors.OpenEnvGymError:
            raise
        except TimeoutError:
            return False
        except OSError:
            self._drop()
            self._resume(end_s)
        return True

    def _make_room(self, op: str, end_s: float | None) -> None:
        """Take replies while there are as many requests without one as the server takes.

        One more would be its end. They are those of callers who gave up, as a rule.

        Args:
            op: What is to be asked.
            end_s: Until when to wait; None: not at all.

        Raises:
            DeadlineExceededError: The server answers none of them.
            OpenEnvGymError: As `call`.
        """
        most = self._session.limits.get("max_pipelined")
        wait, until_s = (False, time.monotonic()) if end_s is None else (True, end_s)
        try:
            while type(most) is int and self._session.in_flight >= most:
                if not self._receive_one(until_s, wait) and self._session.in_flight >= most:
                    raise errors.DeadlineExceededError(
                        f"Cannot {op}: the server at {self._address} has not answered the last "
                        f"{self._session.in_flight} requests.",
                        hint="It may hang. Or wait longer, and ask less often.",
                        data={"op": op},
                    )
        except errors.DeadlineExceededError:
            raise
        except errors.OpenEnvGymError as error:
            if isinstance(error, errors.ConnectionLostError):
                self._session.close(error.message)
            self._drop()
            raise

    def _resume(self, end_s: float) -> None:
        # A short wait must not be the end of a session that only needs a moment.
        self._reconnect(max(end_s, time.monotonic() + _RESUME_S))

    def _take(self, data: memoryview) -> None:
        """Read a message, and hand a reply to whoever waits for it."""
        data_ns = time.perf_counter_ns()
        next_reply = self._session.next_reply
        pending = None if next_reply is None else self._awaited.get(next_reply)
        landing = None if pending is None else pending.landing
        reply = self._session.receive(decode_packet(data, self._memory, landing))
        if reply is not None:
            if reply.extras and self.on_extras is not None:
                self.on_extras(reply.extras)
            self._deliver(reply, data_ns)

    def _deliver(self, reply: Result | Failure, data_ns: int) -> None:
        pending = self._awaited.pop(reply.id or 0, None)
        if pending is not None:
            pending.reply, pending.data_ns = reply, data_ns
            pending.done_ns = time.perf_counter_ns()

    def _note_timing(self, reply: Result, pending: Pending) -> None:
        queue_ns, environment_ns = reply.timing[0], reply.timing[1]
        self.last_timing = Timing(
            pending.encoded_ns - pending.begin_ns,
            max(pending.data_ns - pending.encoded_ns - queue_ns - environment_ns, 0),
            queue_ns,
            environment_ns,
            pending.done_ns - pending.data_ns,
        )

    def _in_the_middle(self, op: str) -> errors.SessionError:
        return errors.SessionError(
            f"Cannot {op}: this thread is in the middle of another request.",
            hint="A signal handler can only close the environment.",
        )

    def _prepare(
        self, op: str, args: list[Any], options: dict[str, Any] | None
    ) -> tuple[Request, Frame, int, int]:
        """Make a request that waits for its reply from now on; it is not sent yet."""
        begin_ns = time.perf_counter_ns()
        session = self._session
        request = session.request(op, args, options or {})
        frame = encode_message(request.to_wire())
        size_bytes = sum(map(len, frame))
        limit_bytes = session.limits.get("max_frame_bytes", size_bytes)
        if size_bytes > limit_bytes:
            raise errors.FrameTooLargeError(
                f"The message has {size_bytes} bytes, the server takes {limit_bytes}.",
                hint="Send less, or start the server with a higher --max-frame-bytes.",
                data={"size_bytes": size_bytes, "max_bytes": limit_bytes},
            )
        session.sent(request, frame)
        return request, frame, begin_ns, time.perf_counter_ns()

    def _give_up(self, request: Request, error: BaseException) -> None:
        """Leave a request that failed on this side in such a way that the session can go on."""
        self._awaited.pop(request.id, None)
        self._session.abandon(request.id, encode_message(request.without_effect().to_wire()))
        if isinstance(error, errors.ConnectionLostError):
            self._session.close(error.message)
        if not isinstance(error, errors.DeadlineExceededError):
            # Bytes may be lost between the socket and us: only a resume is safe.
            self._drop()
