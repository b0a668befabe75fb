"""What is said on a WebSocket after its handshake: one class for each protocol."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from openenv_gym import errors
from openenv_gym.protocol.codec import decode_packet, encode_packet
from openenv_gym.protocol.frames import CloseCode, Message, Opcode
from openenv_gym.protocol.limits import SHARED_MEMORY
from openenv_gym.protocol.messages import (
    Ack,
    Cancel,
    Failure,
    Hello,
    Request,
    Share,
    error_to_wire,
    read_client_message,
)
from openenv_gym.server.replies import PACKETS, ReplyCoder
from openenv_gym.server.sessions import Entrant
from openenv_gym.server.shared_memory import can_share, map_memory
from openenv_gym.server.site import ConnectionState, Site


if TYPE_CHECKING:
    import socket

    from openenv_gym.server.session import Session
    from openenv_gym.server.shared_memory import Descriptor

__all__ = ["BinaryDialect", "Dialect", "Speaker", "TextDialect", "Work"]

Work = Callable[[], None]


class Speaker(Entrant, Protocol):
    """A connection, as far as its dialect needs it.

    Attributes:
        state: What it waits for.
        site: The server.
        socket: The socket.
        session: What it is heard on.
        descriptor: Between WELCOME and the first request, where the client may share memory.
    """

    state: ConnectionState
    site: Site
    socket: socket.socket
    session: Session | None
    descriptor: Descriptor | None

    def expect_hello(self) -> None:
        """Wait for a first message."""

    def opening(self) -> None:
        """Wait for a session."""

    def end_sharing(self) -> None:
        """Take no descriptor any more."""


class Dialect(ABC):
    """A protocol, on one connection.

    Args:
        connection: The connection.

    Attributes:
        opcode: Kind of WebSocket message in which it is spoken.
        listens_while_opening: Messages are taken before there is a session.
    """

    opcode: ClassVar[Opcode]
    listens_while_opening: ClassVar[bool] = True

    def __init__(self, connection: Speaker) -> None:
        self.connection = connection

    @property
    @abstractmethod
    def coder(self) -> ReplyCoder:
        """How replies are written."""

    @abstractmethod
    def begin(self) -> Work | None:
        """Do what follows the handshake; what takes long is returned as work."""

    @abstractmethod
    def take(self, message: Message) -> Work | None:
        """Take a message; what takes long is returned as work.

        Raises:
            OpenEnvGymError: It breaks the protocol, and ends the connection.
        """

    @abstractmethod
    def refusal(self, error: BaseException) -> tuple[list[Any], CloseCode]:
        """Return the last message of a connection that an error ends, and its close code."""

    @abstractmethod
    def leave(self, session: Session) -> None:
        """Tell a session that the connection is gone."""

    def part(self, session: Session) -> bool:
        """Tell a session that its client closes in order; True where that closes the connection."""
        return False

    def notice(self, packet: Any) -> Any:
        """Return how a message of the binary protocol is told; None: it is not."""
        return None


class TextDialect(Dialect):
    """A protocol of text messages, answered in order; the session ends with its connection.

    Replies have no ids, so that each message, also one that cannot be read, is answered in its
    turn.
    """

    opcode = Opcode.TEXT
    listens_while_opening = False

    def __init__(self, connection: Speaker) -> None:
        super().__init__(connection)
        self._count = 0

    @abstractmethod
    def read(self, message: Message) -> tuple[str, list[Any]]:
        """Return the operation that a message asks for; ``refuse`` for one that cannot be read.

        Raises:
            OpenEnvGymError: The message ends the connection.
        """

    def begin(self) -> Work | None:
        """Open a session."""
        self.connection.opening()
        return self.connection.site.sessions.begin(self.connection, {})

    def take(self, message: Message) -> Work | None:
        """See `Dialect`."""
        session = self.connection.session
        if session is None:
            return None  # it has ended
        op, args = self.read(message)
        self._count += 1
        # Who sends a request needs no earlier reply again.
        return session.submit(Request(self._count, self._count - 1, op, args, {}), self.connection)

    def leave(self, session: Session) -> None:
        """End it: nobody can come back to it."""
        session.detach(self.connection)  # which has nothing more to say
        session.end()

    def part(self, session: Session) -> bool:
        """See `Dialect`: who has the answer may open another session at once."""
        return session.part()

    def unmade(self, error: BaseException) -> str | None:
        """Return what could not be made, where the error is that of making the environment."""
        if self.connection.session is not None or isinstance(error, errors.SessionError):
            return None
        return self.connection.site.app.name


class BinaryDialect(Dialect):
    """The protocol of docs/protocol.md."""

    opcode = Opcode.BINARY
    coder = PACKETS

    def begin(self) -> Work | None:
        """Wait for HELLO."""
        self.connection.expect_hello()
        return None

    def take(self, message: Message) -> Work | None:
        """See `Dialect`."""
        if message.opcode is not Opcode.BINARY:
            raise errors.ProtocolError("Expected binary messages, got a text message.")
        return self._dispatch(read_client_message(decode_packet(message.data)))

    def leave(self, session: Session) -> None:
        """Let it wait for a resume."""
        session.detach(self.connection)

    def refusal(self, error: BaseException) -> tuple[list[Any], CloseCode]:
        """See `Dialect`."""
        code = CloseCode.NORMAL
        if isinstance(error, errors.FrameTooLargeError):
            code = CloseCode.MESSAGE_TOO_BIG
        elif isinstance(error, errors.ProtocolError):
            code = CloseCode.PROTOCOL_ERROR
        return encode_packet(Failure(None, error_to_wire(error)).to_wire()), code

    def notice(self, packet: Any) -> Any:
        """See `Dialect`."""
        return packet

    def _dispatch(self, message: Hello | Request | Cancel | Ack | Share) -> Work | None:
        connection = self.connection
        if connection.descriptor is not None and type(message) is not Share:
            connection.end_sharing()
        if isinstance(message, Hello):
            return self._enter(message)
        session = connection.session
        if session is None:
            raise errors.ProtocolError(f"{type(message).__name__} came before WELCOME.")
        if isinstance(message, Request):
            return session.submit(message, connection)
        if isinstance(message, Share):
            self._share(message.size_bytes)
        elif isinstance(message, Cancel):
            session.cancel(message.id)
        else:
            session.acknowledge(message.ack)
        return None

    def _enter(self, hello: Hello) -> Work | None:
        connection = self.connection
        if connection.state is not ConnectionState.HELLO:
            raise errors.ProtocolError("HELLO came twice.")
        connection.opening()
        features = hello.body.get("features")
        connection.shares = (
            isinstance(features, list)
            and SHARED_MEMORY in features
            and "open" in hello.body
            and can_share(connection.socket)
        )
        return connection.site.sessions.enter(connection, hello.body)

    def _share(self, size_bytes: int) -> None:
        """Map the memory whose descriptor came along, where it was not lost on the way."""
        connection = self.connection
        if connection.descriptor is None or connection.session is None:
            raise errors.ProtocolError(
                "SHARE came twice, after a request, or without the feature in HELLO and WELCOME."
            )
        fd = connection.descriptor.take()
        connection.end_sharing()
        if fd is not None:
            limit_bytes = connection.site.limits.max_frame_bytes
            connection.session.share(map_memory(fd, size_bytes, limit_bytes))
