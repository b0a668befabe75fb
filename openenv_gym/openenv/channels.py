"""A session in OpenEnv's terms, over whichever protocol the server speaks.

Both give the same payloads, in the form of OpenEnv's JSON::

    {"observation": {..., "metadata": {...}}, "reward": 0.5, "done": False, "metadata": {...}}

Over the binary protocol arrays in it are NumPy's, and ``truncated`` is there as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, cast, get_args

import numpy as np
from pydantic_core import PydanticSerializationError, to_jsonable_python

from openenv_gym import errors
from openenv_gym.client.address import Address, Loss, no_log, not_lost
from openenv_gym.client.async_connection import AsyncConnection
from openenv_gym.client.json_connection import JsonConnection
from openenv_gym.client.web_socket import WebSocket, WebSocketOptions
from openenv_gym.openenv.tools_channel import MCP_PATH, ToolsChannel
from openenv_gym.protocol.limits import SUBPROTOCOL
from openenv_gym.protocol.openenv_json import RequestType


__all__ = ["BinaryChannel", "Channel", "JsonChannel", "Wire", "check_wire", "open_channel"]

Wire = Literal["auto", "binary", "json"]
"""Which protocol a client speaks; ``"auto"`` offers ours and takes OpenEnv's otherwise."""

_ANSWER_S = 0.5  # a step that the environment itself cuts off has this long to say so


class Channel(Protocol):
    """One session."""

    @property
    def closed(self) -> bool:
        """The session has ended."""

    async def reset(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Begin an episode; return the payload."""

    async def step(self, action: dict[str, Any], timeout_s: float | None) -> dict[str, Any]:
        """Take a step; return the payload."""

    async def state(self) -> dict[str, Any]:
        """Return the environment's state."""

    async def mcp(self, request: dict[str, Any]) -> dict[str, Any]:
        """Pass a JSON-RPC request on; return the response."""

    async def describe_actions(self) -> dict[str, Any]:
        """Return what an agent may do; see `EnvClient.describe_actions`."""

    async def save_state(self) -> Any:
        """Return the present state; see `EnvClient.save_state`."""

    async def restore_state(self, saved: Any) -> None:
        """Return to a state that was saved."""

    async def close(self) -> None:
        """End the session; safe to repeat."""


class JsonChannel:
    """A session over OpenEnv's JSON."""

    def __init__(
        self, connection: JsonConnection, address: Address, options: WebSocketOptions
    ) -> None:
        self._connection = connection
        self._address = address
        self._options = options
        self._seen: dict[str, Any] = {}  # the last payload, which may list what is legal

    @property
    def closed(self) -> bool:
        """The session has ended."""
        return self._connection.closed

    async def reset(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Begin an episode; see `Channel`."""
        data = _to_json(kwargs, "reset")
        try:
            return self._note(await self._connection.request(RequestType.RESET, data))
        except errors.InvalidActionError as error:
            # OpenEnv has one code for what it does not take, which here is no action.
            raise errors.InvalidOptionError(
                error.message, field=error.field, data=error.data
            ) from error

    async def step(self, action: dict[str, Any], timeout_s: float | None) -> dict[str, Any]:
        """Take a step; see `Channel`."""
        data = _to_json(action, "step")
        return self._note(await self._connection.request(RequestType.STEP, data, timeout_s))

    async def state(self) -> dict[str, Any]:
        """Return the environment's state."""
        return await self._connection.request(RequestType.STATE)

    async def mcp(self, request: dict[str, Any]) -> dict[str, Any]:
        """Pass a JSON-RPC request on."""
        return await self._connection.request(RequestType.MCP, _to_json(request, "mcp"))

    async def describe_actions(self) -> dict[str, Any]:
        """Return what an agent may do; see `describe_over_json`."""
        # What few ask for costs the others nothing.
        from openenv_gym.openenv.describing import describe_over_json

        return await describe_over_json(self._address, self._options, self.mcp, self._seen)

    async def save_state(self) -> Any:
        """Refuse: OpenEnv's JSON has no message for that."""
        raise _not_in_json("save_state")

    async def restore_state(self, saved: Any) -> None:
        """Refuse likewise."""
        raise _not_in_json("restore_state")

    async def close(self) -> None:
        """End the session."""
        await self._connection.close()

    def _note(self, payload: dict[str, Any]) -> dict[str, Any]:
        self._seen = payload
        return payload


class BinaryChannel:
    """A session over the binary protocol, by its typed operations."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    @property
    def closed(self) -> bool:
        """The session has ended."""
        return self._connection.closed

    async def reset(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Begin an episode; see `Channel`."""
        return _payload((await self._connection.request("reset_typed", [kwargs])).value)

    async def step(self, action: dict[str, Any], timeout_s: float | None) -> dict[str, Any]:
        """Take a step; see `Channel`."""
        limit_s = None if timeout_s is None else timeout_s + _ANSWER_S
        args = [action, timeout_s]
        return _payload(
            (await self._connection.request("step_typed", args, timeout_s=limit_s)).value
        )

    async def state(self) -> dict[str, Any]:
        """Return the environment's state."""
        return _checked_map((await self._connection.request("state", [])).value, "state")

    async def describe_actions(self) -> dict[str, Any]:
        """Return what an agent may do."""
        value = (await self._connection.request("describe_actions", [])).value
        return _checked_map(value, "describe_actions")

    async def save_state(self) -> Any:
        """Return the present state."""
        return (await self._connection.request("save_state", [])).value

    async def restore_state(self, saved: Any) -> None:
        """Return to a state that was saved."""
        await self._connection.request("restore_state", [saved])

    async def mcp(self, request: dict[str, Any]) -> dict[str, Any]:
        """Pass a JSON-RPC request on."""
        return _checked_map((await self._connection.request("mcp", [request])).value, "mcp")

    async def close(self) -> None:
        """End the session."""
        await self._connection.close()


def _not_in_json(op: str) -> errors.ConfigurationError:
    return errors.ConfigurationError(
        f"OpenEnv's JSON has no {op}.",
        field="protocol",
        hint="Servers of this library speak the binary protocol as well.",
    )


def check_wire(protocol: object) -> Wire:
    """Check what a client is to speak.

    Raises:
        InvalidOptionError: It is no such protocol.
    """
    if protocol not in get_args(Wire):
        raise errors.InvalidOptionError(
            f"protocol={protocol!r:.80}: expected one of {', '.join(map(repr, get_args(Wire)))}.",
            field="protocol",
        )
    return cast("Wire", protocol)


async def open_channel(
    address: Address,
    options: WebSocketOptions,
    *,
    protocol: Wire = "auto",
    mode: str = "simulation",
    environment: dict[str, Any] | None = None,
    message_timeout_s: float = 60.0,
    why_lost: Loss = not_lost,
    log_tail: Callable[[], str] = no_log,
) -> Channel:
    """Open a session over one WebSocket, in the protocol that both sides speak.

    Args:
        address: Where the server is.
        options: Headers, token, limits.
        protocol: What to speak.
        mode: ``"production"`` opens a session of tools alone, at ``/mcp``.
        environment: What the environment is made with; OpenEnv's JSON cannot carry that.
        message_timeout_s: Limit of each request.
        why_lost: Tells why a server that is watched is gone.
        log_tail: Returns its last lines.

    Raises:
        NotAnOpenEnvServerError: The server does not speak what was asked for.
        InvalidOptionError: Options of the environment, and the server speaks OpenEnv's JSON.
        OpenEnvGymError: The session cannot be opened.
    """
    if mode == "production":
        socket = await WebSocket.open(address, options, path=MCP_PATH, why_lost=why_lost)
        return ToolsChannel(socket, message_timeout_s=message_timeout_s, why_lost=why_lost)
    offered = [] if protocol == "json" else [SUBPROTOCOL]
    socket = await WebSocket.open(address, options, subprotocols=offered, why_lost=why_lost)
    if socket.subprotocol == SUBPROTOCOL:
        return BinaryChannel(
            await AsyncConnection.begin(
                socket,
                environment,
                options,
                timeout_s=message_timeout_s,
                why_lost=why_lost,
                log_tail=log_tail,
            )
        )
    if protocol == "binary" or environment:
        await socket.close()
    if protocol == "binary":
        raise errors.NotAnOpenEnvServerError(
            f"The server at {address} does not speak {SUBPROTOCOL}.",
            hint='protocol="json" speaks OpenEnv\'s JSON to it.',
        )
    if environment:
        raise errors.InvalidOptionError(
            f"The session with {address} is one in OpenEnv's JSON, which has no options of an "
            f"environment: {', '.join(map(str, environment))}.",
            field="options",
            hint="Configure the environment where its server is started.",
        )
    connection = JsonConnection(socket, message_timeout_s=message_timeout_s, why_lost=why_lost)
    return JsonChannel(connection, address, options)


def _payload(value: Any) -> dict[str, Any]:
    """Return the value of a typed operation as OpenEnv's JSON has it."""
    if not isinstance(value, list | tuple) or len(value) < 5:
        raise errors.ProtocolError(f"Expected five items of a typed step, got {value!r:.80}.")
    observation, reward, done, truncated, metadata = value[:5]
    fields = {**_checked_map(observation, "observation"), "metadata": metadata}
    return {
        "observation": fields,
        "reward": reward,
        "done": done,
        "truncated": truncated,
        "metadata": metadata,
    }


def _checked_map(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise errors.ProtocolError(f"Expected a map, got {value!r:.80}.", field=field)
    return value


def _to_json(value: dict[str, Any], what: str) -> dict[str, Any]:
    """Return a value in terms of JSON: arrays as nested lists, enums as their values.

    Raises:
        EncodeError: JSON has no form for something in it.
    """
    try:
        return cast("dict[str, Any]", to_jsonable_python(value, fallback=_plain))
    except (PydanticSerializationError, ValueError, TypeError) as error:
        raise errors.EncodeError(f"JSON cannot carry this {what}: {error}.", field=what) from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} has no form in JSON")
