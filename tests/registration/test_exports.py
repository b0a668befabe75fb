from __future__ import annotations

import importlib
import re

import pytest

import openenv_gym


NAMES = [
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


def test_all() -> None:
    assert openenv_gym.__all__ == NAMES
    assert set(NAMES) <= set(dir(openenv_gym))


@pytest.mark.parametrize(
    ("name", "home"),
    [
        ("Action", "models"),
        ("Array", "models"),
        ("AutoAction", "openenv"),
        ("AutoEnv", "openenv"),
        ("CallToolAction", "models"),
        ("CallToolObservation", "models"),
        ("EnvClient", "openenv"),
        ("Environment", "server"),
        ("GenericAction", "openenv"),
        ("GenericEnvClient", "openenv"),
        ("ListToolsAction", "models"),
        ("ListToolsObservation", "models"),
        ("MCPEnvironment", "server"),
        ("MCPToolClient", "openenv"),
        ("Observation", "models"),
        ("RemoteEnv", "env"),
        ("RemoteVectorEnv", "vector"),
        ("State", "models"),
        ("StepResult", "models"),
        ("SyncEnvClient", "openenv"),
        ("SharedServer", "registration.shared"),
        ("ToolError", "models"),
        ("ToolErrorType", "models"),
        ("ToolInfo", "models"),
        ("start_server", "registration.shared"),
        ("tool", "server"),
    ],
)
def test_names_come_from_their_homes(name: str, home: str) -> None:
    module = importlib.import_module(f"openenv_gym.{home}")
    assert getattr(openenv_gym, name) is getattr(module, name)


def test_errors_is_the_module() -> None:
    assert openenv_gym.errors is importlib.import_module("openenv_gym.errors")


def test_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", openenv_gym.__version__)


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'NoSuch'"):
        _ = openenv_gym.NoSuch
