"""Actions and observations of environments with tools (MCP).

An agent lists the tools and calls them by `Environment.step`, as in OpenEnv. In Python a result
is what the tool returned; in JSON it is the dictionary of OpenEnv's wire (FastMCP's), both ways::

    observation = CallToolObservation(tool_name="echo_message", result="Hello")
    observation.result                                    # "Hello"
    observation.model_dump(mode="json")["result"]["data"]  # "Hello"
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator

from openenv_gym.models.tool_results import (
    is_openenv_result,
    result_from_openenv,
    result_to_openenv,
)
from openenv_gym.models.types import Action, Observation


__all__ = [
    "RESERVED_TOOL_NAMES",
    "CallToolAction",
    "CallToolObservation",
    "ListToolsAction",
    "ListToolsObservation",
    "ToolError",
    "ToolErrorType",
    "ToolInfo",
    "is_tool_action",
    "openenv_fields",
]

RESERVED_TOOL_NAMES = frozenset({"reset", "step", "state", "close"})
"""What no tool may be called: who trains controls the simulation, not the agent."""


class ToolInfo(BaseModel):
    """A tool, as an agent sees it.

    Attributes:
        name: What it is called by.
        description: What it does, for a model to read.
        input_schema: JSON Schema of its arguments, which are an object.
    """

    model_config = ConfigDict(extra="forbid")

    name: str
    description: str
    input_schema: dict[str, Any]


class ToolErrorType(str, Enum):
    """Why a call gave no result."""

    EXECUTION_ERROR = "execution_error"
    """The tool raised an exception."""
    INVALID_ARGS = "invalid_args"
    """The arguments are not those of its schema."""
    TRANSPORT_ERROR = "transport_error"
    """The tool is elsewhere, and cannot be reached."""
    TOOL_NOT_FOUND = "tool_not_found"
    """There is no such tool, or not in this mode."""
    TIMEOUT = "timeout"
    """It took longer than it may."""


class ToolError(BaseModel):
    """Why a call gave no result.

    Attributes:
        error_type: What kind of failure it was.
        message: What happened, for a model to read.
    """

    model_config = ConfigDict(extra="forbid")

    error_type: ToolErrorType
    message: str


class ListToolsAction(Action):
    """Ask which tools there are; needs no reset, and counts as no step.

    Attributes:
        type: Tells it from other actions.
    """

    type: Literal["list_tools"] = "list_tools"


class CallToolAction(Action):
    """Call a tool.

    Attributes:
        type: Tells it from other actions.
        tool_name: Name of the tool.
        arguments: Its arguments by name.
    """

    type: Literal["call_tool"] = "call_tool"
    tool_name: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class ListToolsObservation(Observation):
    """The tools that there are.

    Attributes:
        tools: One entry for each.
    """

    tools: list[ToolInfo]


class CallToolObservation(Observation):
    """What a tool returned.

    Attributes:
        tool_name: Name of the tool.
        result: What its function returned; in JSON, the dictionary of OpenEnv's wire.
        error: Why there is no result, or None.
    """

    tool_name: str
    result: Any = None
    error: ToolError | None = None

    @field_validator("result", mode="before")
    @classmethod
    def _from_wire(cls, result: Any) -> Any:
        return result_from_openenv(result) if is_openenv_result(result) else result

    @field_serializer("result", when_used="json")
    def _to_wire(self, result: Any) -> Any:
        # A failed call has no result, which is something else than a tool that returned None.
        return None if self.error is not None else result_to_openenv(result)


def is_tool_action(action: Mapping[str, Any]) -> bool:
    """Tell whether an action, as a map of its fields, is one of tools.

    OpenEnv's clients may leave the type of a call away.
    """
    kind = action.get("type")
    return kind in ("list_tools", "call_tool") or (
        kind is None and isinstance(action.get("tool_name"), str)
    )


def openenv_fields(observation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an observation as OpenEnv's JSON has them.

    Args:
        observation: Its fields, as the typed operations of a session have them. Those of a
            `CallToolObservation` get their result in the form of the wire; all others stay.

    Raises:
        EncodeError: A tool returned what JSON has no form for.
    """
    fields = dict(observation)
    if fields.keys() == {"tool_name", "result", "error"} and fields["error"] is None:
        fields["result"] = result_to_openenv(fields["result"])
    return fields
