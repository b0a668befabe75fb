"""Typed data that environments, servers and clients exchange; knows neither spaces nor the wire."""

from openenv_gym.models.fields import Array
from openenv_gym.models.mcp import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    ToolError,
    ToolErrorType,
    ToolInfo,
)
from openenv_gym.models.types import Action, Observation, State, StepResult


__all__ = [
    "Action",
    "Array",
    "CallToolAction",
    "CallToolObservation",
    "ListToolsAction",
    "ListToolsObservation",
    "Observation",
    "State",
    "StepResult",
    "ToolError",
    "ToolErrorType",
    "ToolInfo",
]
