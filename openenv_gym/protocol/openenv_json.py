"""OpenEnv's JSON messages (docs/openenv.md), without I/O: for our server and for our clients.

OpenEnv has one WebSocket text message for each request and one for each reply, in order, without
ids. What is named here are its message types and error codes, and which of our errors they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from openenv_gym import errors


__all__ = [
    "ErrorCode",
    "JsonRequest",
    "RequestType",
    "dump_json",
    "encode_error",
    "encode_reply",
    "encode_request",
    "load_json",
    "openenv_code",
    "read_reply",
    "read_request",
    "validation_errors",
    "was_truncated",
]

_NOTES = ("truncated", "TimeLimit.truncated")


class RequestType(str, Enum):
    """What a client may send."""

    RESET = "reset"
    STEP = "step"
    STATE = "state"
    MCP = "mcp"
    CLOSE = "close"

    @property
    def reply(self) -> str:
        """Type of the reply, beside ``error``; `CLOSE` has none."""
        return "observation" if self in (RequestType.RESET, RequestType.STEP) else self.value


class ErrorCode(str, Enum):
    """What an error may be called."""

    INVALID_JSON = "INVALID_JSON"
    UNKNOWN_TYPE = "UNKNOWN_TYPE"
    VALIDATION_ERROR = "VALIDATION_ERROR"
    EXECUTION_ERROR = "EXECUTION_ERROR"
    CAPACITY_REACHED = "CAPACITY_REACHED"
    FACTORY_ERROR = "FACTORY_ERROR"
    SESSION_ERROR = "SESSION_ERROR"


class JsonRequest(NamedTuple):
    """A request that was read.

    Attributes:
        type: What is asked.
        data: The arguments of a reset, the action of a step, or a JSON-RPC request.
    """

    type: RequestType
    data: dict[str, Any]


# -- JSON ---------------------------------------------------------------------------------------


def dump_json(value: Any) -> str:
    """Write JSON.

    Raises:
        EncodeError: It holds NaN, an infinity, or something that JSON has no form for.
    """
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except RecursionError:
        raise errors.EncodeError("The value is nested too deep, or contains itself.") from None
    except ValueError as error:
        raise errors.EncodeError(
            f"JSON cannot carry the value: {error}.",
            hint="NaN and infinity have no form in JSON; the binary protocol carries them.",
        ) from error
    except TypeError as error:
        raise errors.EncodeError(f"JSON cannot carry the value: {error}.") from error


def load_json(text: str | bytes | bytearray | memoryview) -> Any:
    """Read JSON.

    Raises:
        DecodeError: It is none, is not UTF-8, or is nested too deep.
    """
    try:
        # Bytes are UTF-8 and nothing else; `loads` would guess UTF-16 and UTF-32, too.
        return json.loads(text if isinstance(text, str) else bytes(text).decode())
    except UnicodeDecodeError as error:
        raise errors.DecodeError(f"Expected UTF-8: {error}.") from error
    except RecursionError:
        raise errors.DecodeError("The JSON is nested too deep.") from None
    except ValueError as error:
        raise errors.DecodeError(f"Expected JSON: {error}.") from error


# -- requests -----------------------------------------------------------------------------------


def encode_request(kind: RequestType, data: Mapping[str, Any] | None = None) -> str:
    """Write a request.

    Args:
        kind: What is asked.
        data: The arguments of a reset, the action of a step, or a JSON-RPC request.

    Raises:
        EncodeError: JSON cannot carry the data.
    """
    message: dict[str, Any] = {"type": kind.value}
    if data is not None:
        message["data"] = dict(data)
    return dump_json(message)


def read_request(text: str | bytes | bytearray | memoryview) -> JsonRequest:
    """Read what a client sent.

    Raises:
        ProtocolError: It is not a request; `openenv_code` tells OpenEnv's code.
    """
    try:
        message = load_json(text)
    except errors.DecodeError as error:
        raise _refusal(ErrorCode.INVALID_JSON, error.message) from error
    if not isinstance(message, dict):
        raise _refusal(
            ErrorCode.VALIDATION_ERROR,
            f"Expected a JSON object with 'type', got {type(message).__name__}.",
        )
    name = message.get("type")
    try:
        kind = RequestType(name)
    except ValueError:
        known = ", ".join(kind.value for kind in RequestType)
        raise _refusal(
            ErrorCode.UNKNOWN_TYPE,
            f"Unknown message type: {_short(name)}; expected one of {known}.",
            field="type",
        ) from None
    unknown = sorted(message.keys() - {"type", "data"})
    if unknown:
        raise _refusal(
            ErrorCode.VALIDATION_ERROR,
            f"{kind.value}: unknown key {_short(unknown[0])}; expected 'type' and 'data'.",
            field=unknown[0][:80],
        )
    if "data" not in message and kind in (RequestType.STEP, RequestType.MCP):
        raise _refusal(ErrorCode.VALIDATION_ERROR, f"{kind.value}: 'data' is missing.", "data")
    data = message.get("data", {})
    if not isinstance(data, dict):
        raise _refusal(
            ErrorCode.VALIDATION_ERROR,
            f"{kind.value}: 'data' is {_short(data)}, expected an object.",
            field="data",
        )
    return JsonRequest(kind, data)


def _refusal(code: ErrorCode, message: str, field: str | None = None) -> errors.ProtocolError:
    return errors.ProtocolError(message, field=field, data={"openenv_code": code.value})


def _short(value: Any) -> str:
    return f"{value!r:.80}"


# -- replies ------------------------------------------------------------------------------------


def encode_reply(kind: RequestType, data: str) -> str:
    """Write a reply around its data, which is JSON already."""
    return f'{{"type":"{kind.reply}","data":{data}}}'


def encode_error(error: BaseException, *, unmade: str | None = None) -> str:
    """Write an error as OpenEnv has it.

    Args:
        error: What happened.
        unmade: What could not be made, where that is what happened.
    """
    code = openenv_code(error) if unmade is None else ErrorCode.FACTORY_ERROR
    data: dict[str, Any] = {"message": _text_of(error), "code": code.value}
    if unmade is not None:
        data["factory_name"] = unmade
    elif isinstance(error, errors.OpenEnvGymError):
        facts = error.data
        if code is ErrorCode.CAPACITY_REACHED:
            data["active_sessions"] = facts.get("sessions")
            data["max_sessions"] = facts.get("capacity")
        elif code is ErrorCode.VALIDATION_ERROR:
            data["errors"] = validation_errors(error)
    return json.dumps({"type": "error", "data": data}, default=str)


def validation_errors(error: errors.OpenEnvGymError) -> list[Any]:
    """Return what is wrong with somebody's input, in the form of Pydantic's list of errors."""
    where = [error.field] if error.field else []
    return error.data.get("errors") or [{"type": "value_error", "loc": where, "msg": error.message}]


def openenv_code(error: BaseException) -> ErrorCode:
    """Return OpenEnv's code for an exception."""
    if isinstance(error, errors.CapacityError):
        return ErrorCode.CAPACITY_REACHED
    if isinstance(error, (errors.InvalidActionError, errors.InvalidOptionError)):
        return ErrorCode.VALIDATION_ERROR
    if isinstance(error, errors.ProtocolError):
        known = error.data.get("openenv_code")
        return ErrorCode(known) if known is not None else ErrorCode.VALIDATION_ERROR
    if isinstance(error, errors.SessionError):
        return ErrorCode.SESSION_ERROR
    return ErrorCode.EXECUTION_ERROR


def _text_of(error: BaseException) -> str:
    if isinstance(error, errors.OpenEnvGymError):
        return error.message
    return str(error) or type(error).__name__


def read_reply(text: str | bytes | bytearray | memoryview, expected: str) -> dict[str, Any]:
    """Read what a server answered.

    Args:
        text: The message.
        expected: Type of the reply, see `RequestType.reply`.

    Returns:
        Its data.

    Raises:
        InvalidActionError: The server refused the action; `field` names the part of it.
        EnvironmentFailedError: The environment raised, or cannot be made.
        CapacityError: The server is full.
        SessionError: The session is over.
        ProtocolError: The message has another form than OpenEnv's.
    """
    message = load_json(text)
    if not isinstance(message, dict) or not isinstance(message.get("data"), dict):
        raise errors.ProtocolError(
            f"Expected an object with 'type' and 'data' from the server, got {_short(message)}."
        )
    kind = message.get("type")
    data: dict[str, Any] = message["data"]
    if kind == "error":
        raise _error_from(data)
    if kind != expected:
        raise errors.ProtocolError(
            f"The server answered {_short(kind)}, expected {expected!r}.", field="type"
        )
    return data


def _error_from(data: Mapping[str, Any]) -> errors.OpenEnvGymError:
    code = data.get("code")
    text = errors.printable(str(data.get("message") or f"The server answered {_short(code)}."))
    facts = {"openenv_code": str(code)[:80]}
    if code == ErrorCode.CAPACITY_REACHED.value:
        return errors.CapacityError(
            text,
            hint="Close other sessions, or wait for a place.",
            data={
                **facts,
                "sessions": data.get("active_sessions"),
                "capacity": data.get("max_sessions"),
            },
        )
    if code == ErrorCode.VALIDATION_ERROR.value:
        return _refused_by(text, data.get("errors"), facts)
    if code == ErrorCode.EXECUTION_ERROR.value:
        return errors.EnvironmentFailedError(text, data=facts)
    if code == ErrorCode.FACTORY_ERROR.value:
        return errors.EnvironmentFailedError(
            f"The server cannot make the environment: {text}", data=facts
        )
    if code == ErrorCode.SESSION_ERROR.value:
        return errors.SessionError(text, data=facts)
    return errors.ProtocolError(text, data=facts)


def _refused_by(text: str, found: Any, facts: dict[str, Any]) -> errors.InvalidActionError:
    """Read a list of Pydantic's errors, of which the first is named."""
    field = None
    if isinstance(found, list) and found and isinstance(found[0], dict):
        where = found[0].get("loc")
        if isinstance(where, list) and where:
            field = errors.printable(".".join(map(str, where)))[:200]
        if isinstance(said := found[0].get("msg"), str):
            text = errors.printable(f"{field}: {said}." if field else said)
    return errors.InvalidActionError(text, field=field, data=facts)


def was_truncated(metadata: Mapping[str, Any] | None) -> bool:
    """Tell whether an episode that is done was cut off, from the metadata that came along.

    OpenEnv's wire has one flag, ``done``. Our server notes ``truncated`` in the metadata, and
    servers that host Gymnasium environments often pass on ``TimeLimit.truncated`` (the key that
    Gym's wrapper of that name used).
    """
    return metadata is not None and any(metadata.get(note) is True for note in _NOTES)
