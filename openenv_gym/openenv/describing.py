"""``describe_actions`` of a client that speaks OpenEnv's JSON, which has no such message.

What there is to say is at ``GET /schema``, in the answer to JSON-RPC's ``tools/list``, and in the
last observation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from openenv_gym import errors
from openenv_gym.bridge.describing import (
    LIST_TOOLS,
    describe_schema,
    legal_by_note,
    read_tools,
)
from openenv_gym.bridge.schemas import Schemas, fetch_schemas
from openenv_gym.client.address import Address
from openenv_gym.client.web_socket import WebSocketOptions
from openenv_gym.models import Action


__all__ = ["describe_over_json"]


async def describe_over_json(
    address: Address,
    options: WebSocketOptions,
    mcp: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]],
    payload: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what a server lets an agent do; see `EnvClient.describe_actions`.

    Args:
        address: Where it is.
        options: How the client connects to it.
        mcp: Passes a JSON-RPC request to the session.
        payload: What the server last answered to `reset` or `step`; empty before that.

    Raises:
        NotAnOpenEnvServerError: It tells no schema.
        OpenEnvGymError: It cannot be asked.
    """
    schemas: Schemas = await asyncio.to_thread(
        fetch_schemas,
        address,
        headers=options.request_headers(),
        timeout_s=options.connect_timeout_s,
        ssl_context=options.ssl_context,
    )
    kind, model = await asyncio.to_thread(_kind_of, schemas)
    described = schemas.described
    if described is None:
        described = {"actions": [kind], "tools": await _tools_of(mcp)}
    return {**described, "legal": legal_by_note(kind, model, payload)}


def _kind_of(schemas: Schemas) -> tuple[dict[str, Any], type[Action] | None]:
    try:
        model = schemas.action_model()
    except errors.SpaceError:
        model = None
    return describe_schema(schemas.action, model), model


async def _tools_of(
    mcp: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]],
) -> list[dict[str, Any]]:
    try:
        return read_tools(await mcp(dict(LIST_TOOLS)))
    except (errors.EnvironmentFailedError, errors.InvalidActionError):
        return []  # it knows nothing of tools
    except errors.ProtocolError:
        return []  # older servers do not even know the message
