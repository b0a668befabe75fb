"""The client's half of a session, without I/O: ids, acknowledgements, resume.

Whoever moves the bytes calls `hello` for each connection, `request` for each operation, `receive`
for each message that comes, and `lost` when a connection breaks. What must be sent is returned.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from openenv_gym import errors
from openenv_gym.protocol.limits import VERSION, Limits
from openenv_gym.protocol.messages import (
    Failure,
    Goaway,
    Hello,
    Reply,
    Request,
    Result,
    Welcome,
    check_version,
    error_from_wire,
    read_server_message,
)


__all__ = ["ClientSession", "ClientState"]


class ClientState(Enum):
    """Where a session stands, seen from the client."""

    NEW = "new"
    """No HELLO was answered yet."""
    OPEN = "open"
    """A connection stands."""
    SUSPENDED = "suspended"
    """The connection broke; the session can be taken up again."""
    CLOSED = "closed"
    """Ended, by either side."""


_ENVIRONMENT: dict[str, tuple[Callable[[Any], bool], str]] = {
    "action_space": (lambda value: isinstance(value, dict), "a map"),
    "observation_space": (lambda value: isinstance(value, dict), "a map"),
    "metadata": (lambda value: value is None or isinstance(value, dict), "a map"),
    "render_mode": (lambda value: value is None or isinstance(value, str), "a str or nil"),
    "observables": (
        lambda value: (
            value is None
            or (isinstance(value, list) and all(isinstance(path, str) for path in value))
        ),
        "an array of str",
    ),
    "rng": (lambda value: value is None or isinstance(value, dict), "a map or nil"),
    "time_limit": (
        lambda value: value is None or (type(value) is int and value > 0),
        "a positive int or nil",
    ),
    "vector": (lambda value: value is None or isinstance(value, dict), "a map"),
    "multi_agent": (lambda value: value is None or isinstance(value, dict), "a map"),
}


def _check_environment(body: Any) -> dict[str, Any]:
    """Check the map ``environment`` of WELCOME as far as its values must have a type.

    Raises:
        ProtocolError: A value has another one, or is missing.
    """
    if not isinstance(body, dict):
        raise errors.ProtocolError(f"WELCOME's environment is {body!r:.80}, expected a map.")
    for key, (fits, expected) in _ENVIRONMENT.items():
        if not fits(body.get(key)):
            raise errors.ProtocolError(
                f"WELCOME's environment has {key}={body.get(key)!r:.80}, expected {expected}.",
                field=f"environment.{key}",
            )
    return body


@dataclass
class ClientSession:
    """State of one session.

    Args:
        agent: Name and version of the client.
        open_body: The map ``open`` of HELLO.
        max_frame_bytes: Largest message that the client takes.
        features: What the client can do.

    Attributes:
        shared_features: What the server can do, too.
        going_away: Why the server has said that it will stop; None where it has not.
        reloads: It will be there again, with edited code and without its sessions.
    """

    agent: str
    open_body: dict[str, Any]
    max_frame_bytes: int = Limits.max_frame_bytes
    features: tuple[str, ...] = ()
    shared_features: frozenset[str] = field(default=frozenset(), init=False)
    environment: dict[str, Any] = field(default_factory=dict, init=False)
    limits: dict[str, Any] = field(default_factory=dict, init=False)
    name: str = field(default="", init=False)
    going_away: str | None = field(default=None, init=False)
    reloads: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._owner_pid = os.getpid()
        self._token = b""
        self._epoch = 0
        self._last_id = 0
        self._ack = 0
        self._pending: OrderedDict[int, Any] = OrderedDict()  # frames, for sending them again
        self._opened = self._connected = False
        self._why_closed: str | None = None

    @property
    def state(self) -> ClientState:
        """Where the session stands. Once closed, from whatever thread, it stays closed."""
        if self._why_closed is not None:
            return ClientState.CLOSED
        if not self._opened:
            return ClientState.NEW
        return ClientState.OPEN if self._connected else ClientState.SUSPENDED

    def check_owner(self) -> None:
        """Refuse to work in a forked child.

        Raises:
            ForkedSessionError: This is not the process that opened the session.
        """
        if os.getpid() != self._owner_pid:
            raise errors.ForkedSessionError(
                f"This environment was made in process {self._owner_pid}, and this is its forked "
                f"child {os.getpid()}.",
                hint="Make the environment inside the child.",
            )

    @property
    def owned(self) -> bool:
        """This process opened the session (a forked child did not)."""
        return os.getpid() == self._owner_pid

    # -- connections --------------------------------------------------------------------------

    def hello(self) -> list[Any]:
        """Return the HELLO of the next connection: opening at first, resuming later."""
        body: dict[str, Any] = {
            "version": list(VERSION),
            "agent": self.agent,
            "features": list(self.features),
            "max_frame_bytes": self.max_frame_bytes,
        }
        if not self._opened:
            body["open"] = self.open_body
        else:
            self._epoch += 1
            body["resume"] = {
                "session": self.name,
                "token": self._token,
                "epoch": self._epoch,
                "ack": self._ack,
            }
        return Hello(body).to_wire()

    def welcome(self, message: list[Any]) -> list[Any]:
        """Take the answer to HELLO; return the frames of requests that must be sent again.

        Raises:
            ProtocolError: The answer is no WELCOME, or an incomplete one.
            VersionMismatchError: The server speaks another major version.
            SessionLostError: The session cannot be resumed.
            OpenEnvGymError: Whatever the server answered instead (capacity, an option, ...).
        """
        answer = read_server_message(message)
        if isinstance(answer, Failure):
            error = error_from_wire(answer.error)
            if self._opened:
                error = self.reloaded() or error
                self.close(error.message)
            raise error
        if not isinstance(answer, Welcome):
            raise errors.ProtocolError(f"Expected WELCOME, got {type(answer).__name__}.")
        body = answer.body
        check_version(body, peer="server")
        try:
            self.name, self._token = str(body["session"]), bytes(body["token"])
            self._epoch = max(self._epoch, int(body["epoch"]))
            self.limits = dict(body["limits"])
            if not self._opened:
                self.environment = _check_environment(body["environment"])
                self.shared_features = frozenset(self.features).intersection(
                    map(str, body.get("features") or ())
                )
                received = 0
            else:
                received = int(body["received"])
        except (KeyError, TypeError, ValueError) as error:
            raise errors.ProtocolError(f"WELCOME is incomplete: {error!r}.") from error
        self._opened = self._connected = True
        return [frame for id_, frame in self._pending.items() if id_ > received]

    def reloaded(self) -> errors.ServerReloadedError | None:
        """Return what ends a session whose server has said that it starts anew after an edit."""
        if not self.reloads:
            return None
        return errors.ServerReloadedError(
            "The server was started anew after an edit, and this session is lost.",
            hint="Make a new environment: it runs the edited code.",
        )

    def lost(self) -> None:
        """Note that the connection broke."""
        self._connected = False

    def close(self, why: str = "") -> None:
        """Note that the session has ended, and why; the first reason stays."""
        if self._why_closed is None:
            self._why_closed = why

    def check_open(self, op: str) -> None:
        """Refuse an operation where the session has ended.

        Raises:
            SessionClosedError: It has.
        """
        if self._why_closed is not None:
            raise errors.SessionClosedError(
                f"Cannot {op}: the environment is closed. {self._why_closed}".rstrip(),
                hint="Make a new one.",
            )

    # -- requests -----------------------------------------------------------------------------

    def request(self, op: str, args: list[Any], options: dict[str, Any]) -> Request:
        """Give an operation its id; `sent` must follow with its frame.

        Raises:
            SessionClosedError: The session has ended.
        """
        self.check_open(op)
        return Request(self._last_id + 1, self._ack, op, args, options)

    def sent(self, request: Request, frame: Any) -> None:
        """Keep the frame of a request until its reply is there. Call it before sending."""
        self._last_id = request.id
        self._pending[request.id] = frame

    def abandon(self, id_: int, frame: Any) -> None:
        """Nobody waits for the reply of this request any more.

        Args:
            id_: Of the request.
            frame: A frame with this id that does nothing, to be sent in place of a request that
                never arrived (it may be the very one that the server refuses to read).
        """
        if id_ in self._pending:
            self._pending[id_] = frame

    def skip(self) -> int | None:
        """Acknowledge the next reply unseen: it came, and cannot be read. Return its id."""
        id_ = self.next_reply
        if id_ is not None:
            del self._pending[id_]
            self._ack = id_
        return id_

    @property
    def next_reply(self) -> int | None:
        """Id of the request whose reply comes next."""
        return next(iter(self._pending), None)

    @property
    def in_flight(self) -> int:
        """Requests without a reply."""
        return len(self._pending)

    def receive(self, message: list[Any]) -> Reply | None:
        """Take a message; return it where it is a reply that was not here before.

        Raises:
            ProtocolError: The server broke the protocol.
            OpenEnvGymError: The server ended the connection for a reason of its own.
        """
        answer = read_server_message(message)
        if isinstance(answer, Result) or (isinstance(answer, Failure) and answer.id is not None):
            return self._match(answer)
        if isinstance(answer, Goaway):
            self.going_away = str(answer.body.get("reason", "the server is going away"))
            self.reloads = answer.body.get("reload") is True
            return None
        if isinstance(answer, Failure):
            raise error_from_wire(answer.error)
        raise errors.ProtocolError("The server sent WELCOME twice.")

    def _match(self, reply: Reply) -> Reply | None:
        id_ = reply.id
        assert id_ is not None
        if id_ <= self._ack:
            return None  # sent again by a resume, and here already
        first = self.next_reply
        if id_ != first:
            raise errors.ProtocolError(
                f"The server answered request {id_}, expected the answer to {first}."
            )
        self._ack = id_
        del self._pending[id_]
        return reply
