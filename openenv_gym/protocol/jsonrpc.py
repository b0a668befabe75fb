"""JSON-RPC 2.0 as MCP uses it, without I/O: one request or notification in a message.

What is refused is a `ProtocolError` whose ``data["rpc_code"]`` is JSON-RPC's code.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from openenv_gym import errors


__all__ = [
    "RpcCode",
    "RpcRequest",
    "read_rpc",
    "rpc_error",
    "rpc_failure",
    "rpc_result",
    "rpc_unmade",
]

_NOTIFICATION = "notifications/"


class RpcCode(IntEnum):
    """JSON-RPC's codes of errors."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    SERVER_ERROR = -32000
    """The server can make no session: it is full, or the environment cannot be made."""


class RpcRequest(NamedTuple):
    """A message that was read.

    Attributes:
        method: What is asked; empty for a response of the client, which nobody waits for.
        params: Its arguments.
        id: What the answer carries; None where there was none.
        answered: Somebody waits for an answer. MCP's notifications all begin with
            ``notifications/``; OpenEnv answers any other message without an id too, with
            ``"id": null``, and so is it done here.
    """

    method: str
    params: dict[str, Any]
    id: str | int | None
    answered: bool

    def to_wire(self) -> dict[str, Any]:
        """Return the message as JSON-RPC has it."""
        message: dict[str, Any] = {
            "jsonrpc": "2.0",
            "method": self.method,
            "params": self.params,
        }
        return message if self.id is None else {**message, "id": self.id}


def read_rpc(message: Any) -> RpcRequest:
    """Read a message that was JSON.

    Raises:
        ProtocolError: It is not one message of JSON-RPC; ``data["rpc_code"]`` is the code, and
            ``data["rpc_id"]`` the id where it has one.
    """
    if isinstance(message, list):
        raise rpc_error(
            RpcCode.INVALID_REQUEST,
            "Invalid request: expected one message, got a list of them (MCP has no batches).",
        )
    if not isinstance(message, dict):
        raise rpc_error(
            RpcCode.INVALID_REQUEST,
            f"Invalid request: expected an object, got {type(message).__name__}.",
        )
    id_ = message.get("id")
    if id_ is not None and type(id_) not in (str, int):
        raise rpc_error(
            RpcCode.INVALID_REQUEST,
            f"Invalid request: id is {id_!r:.80}, expected a string or an integer.",
            field="id",
        )
    if message.get("jsonrpc") != "2.0":
        raise _invalid("jsonrpc", message.get("jsonrpc"), "'2.0'", id_)
    if "method" not in message and ("result" in message or "error" in message):
        return RpcRequest("", {}, id_, answered=False)
    method = message.get("method")
    if not isinstance(method, str) or not method:
        raise _invalid("method", method, "the name of a method", id_)
    params = message.get("params")
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise _invalid("params", params, "an object", id_)
    notifies = id_ is None and method.startswith(_NOTIFICATION)
    return RpcRequest(method, params, id_, answered=not notifies)


def _invalid(field: str, value: Any, expected: str, id_: str | int | None) -> errors.ProtocolError:
    return rpc_error(
        RpcCode.INVALID_REQUEST,
        f"Invalid request: {field} is {value!r:.80}, expected {expected}.",
        field=field,
        id_=id_,
    )


def rpc_error(
    code: RpcCode,
    message: str,
    *,
    field: str | None = None,
    id_: str | int | None = None,
    data: Mapping[str, Any] | None = None,
) -> errors.ProtocolError:
    """Return what is raised where a message is refused.

    Args:
        code: JSON-RPC's code.
        message: What was wrong.
        field: Which part of the message.
        id_: Id of the message, where the answer cannot know it otherwise.
        data: Facts that go along.
    """
    facts: dict[str, Any] = {"rpc_code": int(code)}
    if id_ is not None:
        facts["rpc_id"] = id_
    if data is not None:
        facts["rpc_data"] = dict(data)
    return errors.ProtocolError(message, field=field, data=facts)


def rpc_unmade(name: str, error: BaseException) -> errors.ProtocolError:
    """Return what is raised where an environment cannot be made.

    Args:
        name: What is made.
        error: What making it raised.
    """
    text = error.message if isinstance(error, errors.OpenEnvGymError) else str(error)
    return rpc_error(
        RpcCode.SERVER_ERROR,
        f"Cannot make {name}: {text or type(error).__name__}",
        data={"factory_name": name},
    )


def rpc_result(id_: str | int | None, result: Any) -> dict[str, Any]:
    """Return an answer."""
    return {"jsonrpc": "2.0", "id": id_, "result": result}


def rpc_failure(id_: str | int | None, error: BaseException) -> dict[str, Any]:
    """Return the answer that tells of an exception.

    The code is that of `rpc_error`; a server that can make no session has -32000 with the facts of
    OpenEnv, and anything else is an internal error. Only messages of this library's own exceptions
    tell more than the class.
    """
    code, data = RpcCode.INTERNAL_ERROR, None
    message = f"Internal error: {type(error).__name__}: {error}"
    if isinstance(error, errors.OpenEnvGymError):
        facts, message = error.data, str(error)
        if isinstance(error, errors.CapacityError):
            code = RpcCode.SERVER_ERROR
            data = {
                "active_sessions": facts.get("sessions"),
                "max_sessions": facts.get("capacity"),
            }
        elif isinstance(error, errors.ServerDrainingError):
            code = RpcCode.SERVER_ERROR
        elif "rpc_code" in facts:
            code = RpcCode(facts["rpc_code"])
            data = facts.get("rpc_data")
            id_ = facts.get("rpc_id", id_)
    return {
        "jsonrpc": "2.0",
        "id": id_,
        "error": {"code": int(code), "message": message, "data": data},
    }
