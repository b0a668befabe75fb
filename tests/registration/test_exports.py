from __future__ import annotations

import importlib
import re

import pytest

import openenv_gym


NAMES = [
    "Action",
    "Array",
    "CallToolAction",
    "CallToolObservation",
    "Environment",
    "ListToolsAction",
    "ListToolsObservation",
    "MCPEnvironment",
    "Observation",
    "RemoteEnv",
    "RemoteVectorEnv",
    "SharedServer",
    "State",
    "StepResult",
    "ToolError",
    "ToolErrorType",
    "ToolInfo",
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
        ("CallToolAction", "models"),
        ("CallToolObservation", "models"),
        ("Environment", "server"),
        ("ListToolsAction", "models"),
        ("ListToolsObservation", "models"),
        ("MCPEnvironment", "server"),
        ("Observation", "models"),
        ("RemoteEnv", "env"),
        ("RemoteVectorEnv", "vector"),
        ("State", "models"),
        ("StepResult", "models"),
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
