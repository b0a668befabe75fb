"""Gymnasium environments that run somewhere else.

Importing this package registers its ids with Gymnasium::

    import gymnasium
    import openenv_gym

    env = gymnasium.make("openenv/Atari-v0", game="pong")

Everything else is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from openenv_gym._version import __version__
from openenv_gym.registration import register_all


if TYPE_CHECKING:
    from openenv_gym import errors
    from openenv_gym.env import RemoteEnv
    from openenv_gym.models import (
        Action,
        Array,
        CallToolAction,
        CallToolObservation,
        ListToolsAction,
        ListToolsObservation,
        Observation,
        State,
        StepResult,
        ToolError,
        ToolErrorType,
        ToolInfo,
    )
    from openenv_gym.openenv import (
        AutoAction,
        AutoEnv,
        EnvClient,
        GenericAction,
        GenericEnvClient,
        MCPToolClient,
        SyncEnvClient,
    )
    from openenv_gym.registration.shared import SharedServer, start_server
    from openenv_gym.server import Environment, MCPEnvironment, ToolResultText, tool
    from openenv_gym.vector import RemoteVectorEnv

__all__ = [
    "Action",
    "Array",
    "AutoAction",
    "AutoEnv",
    "CallToolAction",
    "CallToolObservation",
    "EnvClient",
    "Environment",
    "GenericAction",
    "GenericEnvClient",
    "ListToolsAction",
    "ListToolsObservation",
    "MCPEnvironment",
    "MCPToolClient",
    "Observation",
    "RemoteEnv",
    "RemoteVectorEnv",
    "SharedServer",
    "State",
    "StepResult",
    "SyncEnvClient",
    "ToolError",
    "ToolErrorType",
    "ToolInfo",
    "ToolResultText",
    "__version__",
    "errors",
    "start_server",
    "tool",
]

_HOMES = {
    "Action": "openenv_gym.models",
    "Array": "openenv_gym.models",
    "AutoAction": "openenv_gym.openenv",
    "AutoEnv": "openenv_gym.openenv",
    "CallToolAction": "openenv_gym.models",
    "CallToolObservation": "openenv_gym.models",
    "EnvClient": "openenv_gym.openenv",
    "Environment": "openenv_gym.server",
    "GenericAction": "openenv_gym.openenv",
    "GenericEnvClient": "openenv_gym.openenv",
    "ListToolsAction": "openenv_gym.models",
    "ListToolsObservation": "openenv_gym.models",
    "MCPEnvironment": "openenv_gym.server",
    "MCPToolClient": "openenv_gym.openenv",
    "Observation": "openenv_gym.models",
    "RemoteEnv": "openenv_gym.env",
    "RemoteVectorEnv": "openenv_gym.vector",
    "SharedServer": "openenv_gym.registration.shared",
    "State": "openenv_gym.models",
    "StepResult": "openenv_gym.models",
    "SyncEnvClient": "openenv_gym.openenv",
    "ToolError": "openenv_gym.models",
    "ToolErrorType": "openenv_gym.models",
    "ToolInfo": "openenv_gym.models",
    "ToolResultText": "openenv_gym.server",
    "start_server": "openenv_gym.registration.shared",
    "tool": "openenv_gym.server",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    # From now on found without a detour through this function.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register_all()
