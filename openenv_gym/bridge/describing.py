"""What an OpenEnv server lets an agent do, in the form of ``describe_actions``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from openenv_gym import errors
from openenv_gym.models import Action, ToolInfo
from openenv_gym.spaces import ModelMapping, describe_kind, model_from_schema
from openenv_gym.spaces.choices import noted_choices


if TYPE_CHECKING:
    import gymnasium

__all__ = ["LIST_TOOLS", "describe_schema", "legal_by_note", "read_described", "read_tools"]

LIST_TOOLS: Mapping[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
"""The JSON-RPC request for the tools of a server."""

_OWN = "metadata"  # of every action, and no choice


def describe_schema(schema: Mapping[str, Any], model: type[Action] | None = None) -> dict[str, Any]:
    """Describe the kind of action that a server takes.

    Args:
        schema: Its JSON Schema.
        model: Its model; None makes one of the schema, where that is possible.

    Returns:
        What `describe_kind` returns, with the server's own names and schema.
    """
    fields = None
    try:
        model = model or model_from_schema(schema, Action)
        fields = describe_kind(model)["fields"]
    except errors.SpaceError:
        pass
    return {
        "name": _text(schema.get("title")) or "Action",
        "description": " ".join(_text(schema.get("description")).partition("\n\n")[0].split()),
        "schema": dict(schema),
        "fields": fields,
    }


def read_tools(response: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tools of a server's answer to `LIST_TOOLS`; none where it knows of none."""
    result = response.get("result")
    listed = result.get("tools") if isinstance(result, Mapping) else None
    tools = []
    for each in listed if isinstance(listed, list) else ():
        found = each if isinstance(each, Mapping) else {}
        try:
            info = ToolInfo(
                name=found.get("name"),  # type: ignore[arg-type]  # the model checks it
                description=found.get("description") or "",
                input_schema=found.get("inputSchema") or found.get("input_schema") or {},
            )
        except ValidationError:
            continue  # an agent could not call it
        tools.append(info.model_dump())
    return tools


def read_described(found: Any) -> dict[str, Any] | None:
    """Return what a server of ours says in ``/schema`` about its actions; None where it is none."""
    if not isinstance(found, Mapping):
        return None
    parts = {name: found.get(name) for name in ("actions", "tools")}
    for part in parts.values():
        if not isinstance(part, list) or not all(isinstance(each, dict) for each in part):
            return None
    return parts


def legal_by_note(
    kind: Mapping[str, Any], model: type[Action] | None, payload: Mapping[str, Any]
) -> list[dict[str, Any]] | None:
    """Return the legal actions that an observation lists, by the conventions of OpenEnv.

    Args:
        kind: What `describe_schema` returned.
        model: The model of the action, where there is one.
        payload: What the server last answered to a reset or a step.
    """
    fields = kind.get("fields")
    if isinstance(fields, Mapping):
        names = [name for name, field in fields.items() if field.get("required")] or list(fields)
    else:
        required = kind["schema"].get("required")
        names = required if isinstance(required, list) else []
    names = [name for name in names if isinstance(name, str) and name != _OWN]
    if len(names) != 1:
        return None
    space: gymnasium.Space[Any] | None = None
    if model is not None and isinstance(fields, Mapping) and len(fields) == 1:
        space = ModelMapping.of(model).space
    observation = payload.get("observation")
    seen = observation if isinstance(observation, Mapping) else {}
    places = (seen, seen.get("metadata"), payload.get("metadata"))
    for place in places:
        if isinstance(place, Mapping):
            found = noted_choices(names[0], space, place)
            if found is not None:
                return found
    return None


def _text(value: Any) -> str:
    return errors.printable(value) if isinstance(value, str) else ""
