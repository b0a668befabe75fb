"""The dispatcher: JSON-RPC messages of one client to one environment, in MCP and in OpenEnv's way.

Both dialects name `tools/list` and `tools/call`. A client of MCP begins with `initialize`, and
gets MCP's results from then on; one that does not is taken for OpenEnv's, whose results are the
dictionaries that FastMCP's client makes.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from openenv_gym import errors
from openenv_gym._version import __version__
from openenv_gym.models.mcp import CallToolAction, CallToolObservation, ToolErrorType
from openenv_gym.models.tool_results import content_of, result_to_openenv
from openenv_gym.protocol.jsonrpc import (
    RpcCode,
    RpcRequest,
    read_rpc,
    rpc_error,
    rpc_failure,
    rpc_result,
)
from openenv_gym.server.mcp.environment import MCPEnvironment
from openenv_gym.server.mcp.tools import Tool


__all__ = ["LATEST_VERSION", "VERSIONS", "ToolRpc"]

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions of MCP that are spoken, oldest first."""

LATEST_VERSION = VERSIONS[-1]

_SERVER = {"name": "openenv-gym", "version": __version__}


class ToolRpc:
    """Answers what one client says to one environment.

    Args:
        environment: The environment; one of another kind has no tools.

    Attributes:
        version: Revision of MCP that was agreed on; None for a client of OpenEnv.
    """

    def __init__(self, environment: Any) -> None:
        self._environment = environment if isinstance(environment, MCPEnvironment) else None
        self.version: str | None = None
        self._session_id = str(uuid.uuid4())

    def answer(
        self, message: Any, *, before_call: Callable[[], None] | None = None
    ) -> dict[str, Any] | None:
        """Answer a message; never raises.

        Args:
            message: What was JSON.
            before_call: Called ahead of a call of a tool.

        Returns:
            What is sent back; None where nobody waits for an answer.
        """
        id_: str | int | None = None
        try:
            request = read_rpc(message)
            id_ = request.id
            if not request.answered:
                return None
            return rpc_result(id_, self._result(request, before_call))
        except Exception as error:
            return rpc_failure(id_, error)

    def _result(
        self, request: RpcRequest, before_call: Callable[[], None] | None
    ) -> dict[str, Any]:
        match request.method:
            case "tools/list":
                return self._list()
            case "tools/call":
                return self._call(request.params, before_call)
            case "initialize":
                return self._initialize(request.params)
            case "ping":
                return {}
            case "openenv/session/create" if self.version is None:
                # The client has one already: it speaks on a connection of its own.
                return {"session_id": self._session_id}
            case "openenv/session/close" if self.version is None:
                raise rpc_error(
                    RpcCode.INVALID_REQUEST, "The session of a connection ends with the connection."
                )
        raise rpc_error(
            RpcCode.METHOD_NOT_FOUND,
            f"Method not found: {request.method:.80}",
            field="method",
        )

    def _initialize(self, params: Mapping[str, Any]) -> dict[str, Any]:
        asked = params.get("protocolVersion")
        if not isinstance(asked, str):
            raise rpc_error(
                RpcCode.INVALID_PARAMS,
                f"Invalid params: protocolVersion is {asked!r:.40}, expected one of "
                f"{', '.join(VERSIONS)}.",
                field="protocolVersion",
            )
        # A client that cannot speak what is offered instead leaves, as MCP has it.
        self.version = asked if asked in VERSIONS else LATEST_VERSION
        return {
            "protocolVersion": self.version,
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": _SERVER,
        }

    # -- tools ------------------------------------------------------------------------------

    def _list(self) -> dict[str, Any]:
        environment = self._environment
        if environment is None:
            return {"tools": []}
        describe = _describe if self.version is not None else _describe_for_openenv
        return {"tools": [describe(each) for each in environment.tools.of_mode(environment.mode)]}

    def _call(
        self, params: Mapping[str, Any], before_call: Callable[[], None] | None
    ) -> dict[str, Any]:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str):
            raise rpc_error(
                RpcCode.INVALID_PARAMS,
                "Missing 'name' in params"
                if name is None
                else f"Invalid params: name is {name!r:.80}, expected a string.",
                field="name",
            )
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, dict):
            raise rpc_error(
                RpcCode.INVALID_PARAMS,
                f"Invalid params: arguments are {arguments!r:.80}, expected an object.",
                field="arguments",
            )
        if self._environment is None:
            raise self._failed(f"Unknown tool: {name!r:.140}; there are none.")
        if before_call is not None:
            before_call()
        called = self._environment.call_tool(CallToolAction(tool_name=name, arguments=arguments))
        failure = called.error
        if failure is not None and self.version is None:
            raise self._failed(failure.message)
        if failure is not None and failure.error_type is ToolErrorType.TOOL_NOT_FOUND:
            raise self._failed(failure.message)
        return _result_of(called) if self.version else result_to_openenv(called.result)

    def _failed(self, message: str) -> errors.ProtocolError:
        """An error in place of a result: MCP has it for tools that there are not."""
        code = RpcCode.INTERNAL_ERROR if self.version is None else RpcCode.INVALID_PARAMS
        return rpc_error(code, message, field="name")


def _describe(each: Tool) -> dict[str, Any]:
    described = {
        "name": each.info.name,
        "description": each.info.description,
        "inputSchema": each.info.input_schema,
    }
    return described if each.output is None else {**described, "outputSchema": each.output}


def _describe_for_openenv(each: Tool) -> dict[str, Any]:
    return {
        "name": each.info.name,
        "title": None,
        "description": each.info.description or None,
        "inputSchema": each.info.input_schema,
        "outputSchema": each.output,
        "icons": None,
        "annotations": None,
        "meta": None,
        "execution": None,
    }


def _result_of(called: CallToolObservation) -> dict[str, Any]:
    """Return MCP's result; a failure is one, too, for the model to read."""
    if called.error is not None:
        return {"content": [{"type": "text", "text": called.error.message}], "isError": True}
    content, plain = content_of(called.result)
    result: dict[str, Any] = {"content": content, "isError": False}
    if plain is not None:
        structured = plain if isinstance(plain, dict) else {"result": plain}
        result["structuredContent"] = structured
    return result
