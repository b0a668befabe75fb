"""A session of tools alone, at ``/mcp``: what a server in production mode gives an agent."""

from __future__ import annotations

import functools
import itertools
from typing import Any, NoReturn

from openenv_gym import errors
from openenv_gym.client.address import Loss, not_lost
from openenv_gym.client.lockstep import Lockstep
from openenv_gym.client.web_socket import WebSocket
from openenv_gym.models import CallToolAction, ToolErrorType
from openenv_gym.protocol.jsonrpc import RpcCode
from openenv_gym.protocol.openenv_json import dump_json, load_json


__all__ = ["MCP_PATH", "ToolsChannel"]

MCP_PATH = "/mcp"


class ToolsChannel(Lockstep):
    """OpenEnv's JSON-RPC on a WebSocket, as a `Channel`: steps are listings and calls of tools.

    Args:
        socket: An open WebSocket at `MCP_PATH`.
        message_timeout_s: Limit of each request.
        why_lost: Tells why a server that is watched is gone; asked where the connection breaks.
    """

    def __init__(
        self, socket: WebSocket, *, message_timeout_s: float = 60.0, why_lost: Loss = not_lost
    ) -> None:
        super().__init__(socket, message_timeout_s=message_timeout_s, why_lost=why_lost)
        self._ids = itertools.count(1)

    async def reset(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Refuse: an agent does not control the simulation."""
        _refuse("reset")

    async def state(self) -> dict[str, Any]:
        """Refuse: an agent does not see the simulation's state."""
        _refuse("state")

    async def save_state(self) -> Any:
        """Refuse likewise."""
        _refuse("save_state")

    async def restore_state(self, saved: Any) -> None:
        """Refuse likewise."""
        _refuse("restore_state")

    async def step(self, action: dict[str, Any], timeout_s: float | None) -> dict[str, Any]:
        """List the tools, or call one; see `Channel`."""
        if action.get("type") == "list_tools":
            return {"observation": await self._result("tools/list", {}, timeout_s)}
        name = action.get("tool_name")
        if not isinstance(name, str):
            _refuse("take other steps than calls of tools")
        params = {"name": name, "arguments": action.get("arguments", {})}
        fields: dict[str, Any] = {"tool_name": name, "result": None, "error": None}
        try:
            fields["result"] = await self._result("tools/call", params, timeout_s)
        except errors.EnvironmentFailedError as error:
            kind = ToolErrorType.EXECUTION_ERROR
            fields["error"] = {"error_type": kind.value, "message": error.message}
        return {"observation": fields}

    async def describe_actions(self) -> dict[str, Any]:
        """Return what an agent may do: call the tools."""
        # What few ask for costs the others nothing.
        from openenv_gym.bridge.describing import read_tools
        from openenv_gym.spaces import describe_kind

        tools = read_tools({"result": await self._result("tools/list", {}, None)})
        return {"actions": [describe_kind(CallToolAction)], "tools": tools, "legal": None}

    async def mcp(self, request: dict[str, Any]) -> dict[str, Any]:
        """Pass a JSON-RPC request on; return the response."""
        return await self.exchange("mcp", dump_json(request), _read)

    async def _result(
        self, method: str, params: dict[str, Any], timeout_s: float | None
    ) -> dict[str, Any]:
        id_ = next(self._ids)
        request = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
        read = functools.partial(_read_result, id_=id_, method=method)
        return await self.exchange(method, dump_json(request), read, timeout_s)

    def is_last(self, error: errors.OpenEnvGymError) -> bool:
        """Tell whether the server ends the session after this error."""
        return isinstance(error, errors.CapacityError)


def _refuse(what: str) -> NoReturn:
    raise errors.ConfigurationError(
        f"Cannot {what}: in production mode there are tools alone.",
        field="mode",
        hint='Use list_tools() and call_tool(), or mode="simulation".',
    )


def _read(reply: str | bytes) -> dict[str, Any]:
    message = load_json(reply)
    if not isinstance(message, dict):
        raise errors.ProtocolError(f"Expected a JSON-RPC response, got {message!r:.80}.")
    return message


def _read_result(reply: str | bytes, *, id_: int, method: str) -> dict[str, Any]:
    """Return the result in a response.

    Raises:
        CapacityError: The server has no free place.
        EnvironmentFailedError: A tool failed, or there is no such tool.
        ProtocolError: It is no response to this request.
    """
    message = _read(reply)
    error = message.get("error")
    if isinstance(error, dict):
        text, code = errors.printable(str(error.get("message"))), error.get("code")
        if code == RpcCode.SERVER_ERROR:
            facts = error.get("data")
            facts = facts if isinstance(facts, dict) else {}
            raise errors.CapacityError(
                text,
                data={
                    "sessions": facts.get("active_sessions"),
                    "capacity": facts.get("max_sessions"),
                },
            )
        failed = method == "tools/call" and code in (RpcCode.INTERNAL_ERROR, RpcCode.INVALID_PARAMS)
        cls = errors.EnvironmentFailedError if failed else errors.ProtocolError
        raise cls(text, data={"rpc_code": code})
    result = message.get("result")
    if message.get("id") != id_ or not isinstance(result, dict):
        raise errors.ProtocolError(f"Expected the response to {method}, got {message!r:.80}.")
    return result
