"""Connections of a supervisor: until it is known what they want, and then a worker has them.

A client of the binary protocol is handed over with the HELLO that it has said. Others are handed
over with their HTTP request: a worker shakes hands with a WebSocket that speaks JSON, and answers a
request that needs an environment.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from openenv_gym import errors
from openenv_gym.protocol.frames import Message, MessageReader, Opcode
from openenv_gym.server.connection import Connection
from openenv_gym.server.http import Call, Upgrade
from openenv_gym.server.http_messages import HttpRequest, Need
from openenv_gym.server.site import ConnectionState
from openenv_gym.server.workers.channel import Kind
from openenv_gym.server.workers.grants import Denial


__all__ = ["Reception"]

_SESSION_HEADER = "mcp-session-id"
_SESSION_PARAMETER = "session_id"
_MAX_HELLO_BYTES = 1 << 20
_MAX_HEARD_BYTES = 2 * _MAX_HELLO_BYTES

Deliver = Callable[[int, bytes], bool]
"""Takes a descriptor, and what the connection has said; False: not taken."""


class Reception(Connection):
    """A connection until a worker takes it over; see `Connection`.

    Attributes:
        kind: As what a worker is handed it.
        keeps: It may leave a session behind.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kind = Kind.CONNECTION
        self.keeps = False
        self._said = b""  # where it is handed over with its request
        self._wanted: Upgrade | Call | None = None  # likewise
        self._recorder = _Recorder(
            max_message_bytes=min(_MAX_HELLO_BYTES, self.site.limits.max_frame_bytes),
            peer_masks=True,
        )
        self._reader = self._recorder

    def hand_over(self, deliver: Deliver) -> bool | None:
        """Give the connection away, with all that it has said since the handshake.

        Returns:
            Whether it was taken; None where the client has left already.
        """
        with self._reading:
            with self._writing:
                if self.state not in (ConnectionState.OPENING, ConnectionState.ANSWERING):
                    return None
                # Who does not read what we answered him would miss it.
                if not self._outbox:
                    if not deliver(self._fd, self._said or self._recorder.heard()):
                        return False
                    self.state = ConnectionState.CLOSED
                    self.site.pool.remove(self._fd)
                    self.socket.close()
            if self.state is not ConnectionState.CLOSED:
                self._drop()
                return None
        self.site.forget(self)
        return True

    def refuse(self, error: BaseException) -> None:
        """See `Connection`."""
        call = self._wanted
        if isinstance(call, Call):
            # The route says it in its own way: no session begins here, and none is known.
            self.site.pool.spawn(lambda: self._answer_here(call, Denial(error)))
        else:
            super().refuse(error)

    def _answer_here(self, call: Call, why_not: Denial) -> None:
        with self._dispatcher.grants.using(why_not):
            super()._answer(call)

    def _listens(self) -> bool:
        return not self._said and super()._listens()  # what comes now is the worker's

    @property
    def _dispatcher(self) -> Any:
        return self.site.sessions

    def _upgrade(self, answer: Upgrade, rest: bytes) -> None:
        if answer.subprotocol is not None:
            super()._upgrade(answer, rest)
            return
        request = answer.request
        self._wanted, self._said = answer, request.head + rest
        self._dialect = self.site.make_dialect(self, request)
        name = request.query.get(_SESSION_PARAMETER)
        if name is None:
            self.kind = Kind.REQUEST
            work = self._dialect.begin()
        else:
            self.kind = Kind.VISIT
            self.opening()
            work = functools.partial(self._dispatcher.find, self, name)
        if work is not None:
            self._work.append(work)

    def _reject(self, error: BaseException) -> None:
        if isinstance(self._wanted, Upgrade):  # an error is told on a WebSocket
            self._send([self._wanted.response])
        super()._reject(error)

    def _answer(self, call: Call) -> None:
        need, request = call.route.need, call.request
        if need is Need.NOTHING:
            super()._answer(call)
            return
        self._wanted, self._said = call, request.head + request.body
        self.arrived_s = time.monotonic()
        name = _session_of(request) if need is Need.SESSION else None
        if name is not None:
            self.kind = Kind.VISIT
            self._dispatcher.find(self, name)
            return
        self.kind, self.keeps = Kind.REQUEST, need is Need.SESSION
        try:
            work = self._dispatcher.begin(self, {})
        except errors.OpenEnvGymError as error:
            self.refuse(error)
            return
        if work is not None:
            work()


def _session_of(request: HttpRequest) -> str | None:
    """Return the session that a request names: in a header (MCP), or in its body (OpenEnv)."""
    named: Any = request.headers.get(_SESSION_HEADER)
    if named is None:
        try:
            message = request.json()
        except errors.DecodeError:
            return None
        match message:
            case {"method": "openenv/session/create"}:  # which does not ask for one
                return None
            case {"params": {"session_id": str(named)}}:
                pass
    return named or None


class _Recorder(MessageReader):
    """A reader that keeps HELLO, and what is not complete after it."""

    def __init__(self, *, max_message_bytes: int, peer_masks: bool) -> None:
        super().__init__(max_message_bytes=max_message_bytes, peer_masks=peer_masks)
        self._heard = bytearray()
        self._target = memoryview(b"")
        self._after_hello = False
        self._kept_bytes = 0

    def heard(self) -> bytes:
        """Return what a reader needs that begins where the handshake ended."""
        return bytes(self._heard)

    def attach(self, leftover: bytes | bytearray | memoryview) -> None:
        """See `MessageReader`."""
        self._heard += leftover
        super().attach(leftover)

    def buffer(self) -> memoryview:
        """See `MessageReader`."""
        self._target = super().buffer()
        return self._target

    def received(self, n: int) -> None:
        """See `MessageReader`.

        Raises:
            ProtocolError: A client goes on speaking where it should wait.
        """
        self._heard += self._target[:n]
        self._target = memoryview(b"")
        super().received(n)
        if len(self._heard) > _MAX_HEARD_BYTES:
            raise errors.ProtocolError(
                f"More than {_MAX_HEARD_BYTES} bytes came before WELCOME; expected HELLO alone."
            )

    def next(self) -> Message | None:
        """See `MessageReader`."""
        message = super().next()
        if message is not None:
            self._after_hello |= message.opcode is Opcode.BINARY
        elif not self.mid_frame:
            # Pings, before and after HELLO, have been answered: nobody needs them any more.
            if self._after_hello and not self._kept_bytes:
                self._kept_bytes = len(self._heard)
            del self._heard[self._kept_bytes :]
        return message
