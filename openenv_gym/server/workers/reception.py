"""Connections of a supervisor: the handshake, HELLO, and then a worker has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from openenv_gym import errors
from openenv_gym.protocol.frames import Message, MessageReader, Opcode
from openenv_gym.server.connection import Connection
from openenv_gym.server.site import ConnectionState


__all__ = ["Reception"]

_MAX_HELLO_BYTES = 1 << 20
_MAX_HEARD_BYTES = 2 * _MAX_HELLO_BYTES

Deliver = Callable[[int, str, bytes], bool]
"""Takes a descriptor, a name for logs, and what the connection has said; False: not taken."""


class Reception(Connection):
    """A connection until a worker takes it over; see `Connection`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
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
                if self.state is not ConnectionState.OPENING:
                    return None
                # Who does not read what we answered him would miss it.
                if not self._outbox:
                    if not deliver(self._fd, self.peer, self._recorder.heard()):
                        return False
                    self.state = ConnectionState.CLOSED
                    self.site.pool.remove(self._fd)
                    self.socket.close()
            if self.state is not ConnectionState.CLOSED:
                self._drop()
                return None
        self.site.forget(self)
        return True


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
