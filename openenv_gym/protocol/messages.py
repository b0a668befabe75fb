"""Messages as the codec carries them (docs/protocol.md, section 4), and errors as maps.

A message is a list whose first item is its type. The two that travel with every step, REQUEST and
RESULT, are built and read with as little ceremony as possible.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

import gymnasium.error

from openenv_gym import errors
from openenv_gym.protocol.limits import VERSION


__all__ = [
    "Failure",
    "Goaway",
    "Hello",
    "MessageType",
    "Reply",
    "Request",
    "Result",
    "Seen",
    "Share",
    "Welcome",
    "error_from_wire",
    "error_to_wire",
    "read_client_message",
    "read_server_message",
]


class MessageType(IntEnum):
    """First item of a message."""

    HELLO = 0
    REQUEST = 1
    CANCEL = 2
    ACK = 3
    SHARE = 4
    WELCOME = 16
    RESULT = 17
    ERROR = 18
    GOAWAY = 19
    SEEN = 20


# -- from the client ----------------------------------------------------------------------------


class Hello(NamedTuple):
    """First message of a connection; `body` holds ``open`` or ``resume``."""

    body: dict[str, Any]

    def to_wire(self) -> list[Any]:
        """Return the message as a list."""
        return [0, self.body]


class Request(NamedTuple):
    """One operation of a session.

    Attributes:
        id: Counts up by one from 1.
        ack: Highest id whose reply, and all earlier ones, the client has.
        op: Name of the operation.
        args: Its arguments.
        options: ``deadline_s`` and ``rng``; empty as a rule.
    """

    id: int
    ack: int
    op: str
    args: list[Any]
    options: dict[str, Any]

    def to_wire(self) -> list[Any]:
        """Return the message as a list."""
        if self.options:
            return [1, self.id, self.ack, self.op, self.args, self.options]
        return [1, self.id, self.ack, self.op, self.args]

    def without_effect(self) -> Request:
        """Return a request that takes this one's place in the order and does nothing."""
        return Request(self.id, self.ack, "ping", [], {})


class Cancel(NamedTuple):
    """Withdraw a request that has not begun."""

    id: int

    def to_wire(self) -> list[Any]:
        """Return the message as a list."""
        return [2, self.id]


class Ack(NamedTuple):
    """Acknowledge replies without a request."""

    ack: int

    def to_wire(self) -> list[Any]:
        """Return the message as a list."""
        return [3, self.ack]


class Share(NamedTuple):
    """Map this memory; its descriptor comes along (docs/protocol.md, section 4.6)."""

    size_bytes: int

    def to_wire(self) -> list[Any]:
        """Return the message as a list."""
        return [4, self.size_bytes]


# -- from the server ----------------------------------------------------------------------------


class Welcome(NamedTuple):
    """The server's answer to HELLO."""

    body: dict[str, Any]

    def to_wire(self) -> list[Any]:
        """Return the message as a list."""
        return [16, self.body]


class Result(NamedTuple):
    """What an operation returned.

    Attributes:
        id: Of the request.
        value: By operation, see docs/protocol.md, section 4.2.
        timing: ``[queue, environment]`` in nanoseconds.
        extras: ``rng`` and ``observed``, where there are any.
    """

    id: int
    value: Any
    timing: list[int]
    extras: dict[str, Any]

    def to_wire(self) -> list[Any]:
        """Return the message as a list."""
        if self.extras:
            return [17, self.id, self.value, self.timing, self.extras]
        return [17, self.id, self.value, self.timing]


class Failure(NamedTuple):
    """An error instead of a result; `id` is None where the connection itself is at fault."""

    id: int | None
    error: dict[str, Any]
    extras: dict[str, Any] = {}

    def to_wire(self) -> list[Any]:
        """Return the message as a list."""
        if self.extras:
            return [18, self.id, self.error, self.extras]
        return [18, self.id, self.error]


class Goaway(NamedTuple):
    """The server will stop."""

    body: dict[str, Any]

    def to_wire(self) -> list[Any]:
        """Return the message as a list."""
        return [19, self.body]


class Seen(NamedTuple):
    """What a watched session did (docs/protocol.md, section 4.9)."""

    body: dict[str, Any]

    def to_wire(self) -> list[Any]:
        """Return the message as a list."""
        return [20, self.body]


Reply = Result | Failure


# -- reading ------------------------------------------------------------------------------------


def read_client_message(message: list[Any]) -> Hello | Request | Cancel | Ack | Share:
    """Check the form of a message that a client sent.

    Raises:
        ProtocolError: The message has an unknown type or the wrong form.
    """
    kind, size = message[0] if message else None, len(message)
    # By hand and not by `match`, which takes five times as long, in every step.
    if kind == 1 and size >= 5:
        id_, ack, op, args = message[1:5]
        options = message[5] if size > 5 else {}
        if (type(id_) is int and id_ >= 1 and type(ack) is int and ack >= 0) and (
            type(op) is str and type(args) is list and type(options) is dict
        ):
            return Request(id_, ack, op, args, options)
    elif kind == 0 and size >= 2 and type(message[1]) is dict:
        return Hello(message[1])
    elif kind == 2 and size >= 2 and type(message[1]) is int:
        return Cancel(message[1])
    elif kind == 3 and size >= 2 and type(message[1]) is int:
        return Ack(message[1])
    elif kind == 4 and size >= 2 and type(message[1]) is int and message[1] > 0:
        return Share(message[1])
    raise _malformed(message, "HELLO, REQUEST, CANCEL, ACK or SHARE")


def read_server_message(message: list[Any]) -> Welcome | Result | Failure | Goaway | Seen:
    """Check the form of a message that a server sent.

    Raises:
        ProtocolError: The message has an unknown type or the wrong form.
    """
    kind, size = message[0] if message else None, len(message)
    if kind == 17 and size >= 4:
        id_, value, timing = message[1:4]
        extras = message[4] if size > 4 else {}
        if (type(id_) is int and type(timing) is list and len(timing) >= 2) and (
            type(timing[0]) is int and type(timing[1]) is int and type(extras) is dict
        ):
            return Result(id_, value, timing, extras)
    elif kind == 18 and size >= 3 and type(message[2]) is dict:
        extras = message[3] if size > 3 else {}
        if (message[1] is None or type(message[1]) is int) and type(extras) is dict:
            return Failure(message[1], message[2], extras)
    elif kind == 16 and size >= 2 and type(message[1]) is dict:
        return Welcome(message[1])
    elif kind == 19 and size >= 2 and type(message[1]) is dict:
        return Goaway(message[1])
    elif kind == 20 and size >= 2 and type(message[1]) is dict:
        return Seen(message[1])
    raise _malformed(message, "WELCOME, RESULT, ERROR, GOAWAY or SEEN")


def check_version(body: Mapping[str, Any], *, peer: str) -> None:
    """Compare the major version in a HELLO or WELCOME with ours.

    Raises:
        ProtocolError: There is no version in it.
        VersionMismatchError: It is another one.
    """
    version = body.get("version")
    if not (isinstance(version, list) and len(version) >= 2 and type(version[0]) is int):
        raise errors.ProtocolError(
            f"The {peer} sent version {version!r:.80}, expected [major, minor].", field="version"
        )
    if version[0] != VERSION[0]:
        ours = ".".join(map(str, VERSION))
        raise errors.VersionMismatchError(
            f"The {peer} speaks version {version[0]} of the protocol, this side version {ours}.",
            field="version",
            hint="Install matching versions of openenv-gym on both sides.",
            data={"supported": [list(VERSION)]},
        )


def _malformed(message: list[Any], expected: str) -> errors.ProtocolError:
    kind = message[0] if message else None
    name = kind
    if type(kind) is int and kind in MessageType._value2member_map_:
        name = MessageType(kind).name
    return errors.ProtocolError(
        f"Expected {expected} in the form that docs/protocol.md gives, got type {name!r:.40} "
        f"with {max(len(message) - 1, 0)} items."
    )


# -- errors -------------------------------------------------------------------------------------


def _subclasses(cls: type[errors.OpenEnvGymError]) -> dict[str, type[errors.OpenEnvGymError]]:
    found = {cls.code: cls}
    for sub in cls.__subclasses__():
        found.update(_subclasses(sub))
    return found


_BY_CODE = _subclasses(errors.OpenEnvGymError)


def error_to_wire(error: BaseException, *, traceback: str | None = None) -> dict[str, Any]:
    """Return an exception as the map of section 6; foreign ones become ``environment_failed``."""
    if isinstance(error, errors.OpenEnvGymError):
        wire: dict[str, Any] = {"code": error.code, "message": error.message}
        if error.field is not None:
            wire["field"] = error.field
        if error.hint is not None:
            wire["hint"] = error.hint
        if error.data:
            wire["data"] = error.data
        return wire
    data = {"type": type(error).__name__}
    if traceback is not None:
        data["traceback"] = traceback
    return {"code": "environment_failed", "message": _message_of(error), "data": data}


def error_from_wire(wire: Mapping[str, Any]) -> errors.OpenEnvGymError:
    """Return the exception that a map of section 6 stands for."""
    code = wire.get("code")
    # An environment may mean harm to the terminal that its exceptions end up on.
    message = errors.printable(str(wire.get("message", "")))
    message = message or f"The server answered {code!r} without a message."
    data = wire.get("data")
    cls = _BY_CODE.get(code, errors.ProtocolError) if isinstance(code, str) else None
    details: dict[str, Any] = dict(data) if isinstance(data, dict) else {}
    if cls is errors.EnvironmentFailedError:
        cls = _as_local_class(str(details.get("type", "Exception")))
    return (cls or errors.ProtocolError)(
        message, field=_text(wire.get("field")), hint=_text(wire.get("hint")), data=details
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


_MAX_TEXT = 16_384


def _message_of(error: BaseException) -> str:
    """Return an exception's text, whatever its author did to ``__str__``."""
    try:
        # str(KeyError("x")) is "'x'": the argument itself is what its author wrote.
        only = isinstance(error, KeyError) and len(error.args) == 1
        text = str(error.args[0] if only else error)
    except Exception as failure:
        text = f"(its text cannot be had: {type(failure).__name__})"
    if len(text) > _MAX_TEXT:
        text = f"{text[:_MAX_TEXT]}... ({len(text)} characters)"
    return text.encode(errors="backslashreplace").decode()  # file names may hold surrogates


_local_classes: dict[str, type[errors.EnvironmentFailedError]] = {}


def _as_local_class(name: str) -> type[errors.EnvironmentFailedError]:
    """Find or make the class that is both `EnvironmentFailedError` and the named local exception.

    A trainer that catches ``ValueError`` from its environment still does when the environment has
    moved away. Only builtins and Gymnasium's own exceptions are looked up; nothing is imported.
    """
    known = _local_classes.get(name)
    if known is not None:
        return known
    import builtins  # here, so that the lookup below reads as what it is

    found = getattr(builtins, name, None) or getattr(gymnasium.error, name, None)
    cls: Any = errors.EnvironmentFailedError
    if isinstance(found, type) and issubclass(found, Exception) and found is not Exception:
        try:
            cls = type(
                f"EnvironmentFailedError[{name}]", (errors.EnvironmentFailedError, found), {}
            )
            cls("probe")
        except TypeError:  # a layout that cannot be combined, or another constructor
            cls = errors.EnvironmentFailedError
    _local_classes[name] = cls
    return _local_classes[name]
