"""``describe_actions`` and `AutoEnv` on servers of the real OpenEnv package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import pytest

import openenv_gym
from openenv_gym import AutoEnv, GenericEnvClient
from tests.integration.openenv.conftest import Launch, Serve
from tests.integration.openenv.running import openenv_program


assert openenv_gym

pytestmark = [pytest.mark.openenv, pytest.mark.timeout(300)]

ECHO = Path(__file__).with_name("echo_server.py")


def check_walk(described: dict[str, Any]) -> None:
    (kind,) = described["actions"]
    assert (kind["name"], kind["description"]) == ("Walk", "Go somewhere.")
    direction = kind["fields"]["direction"]
    assert (direction["type"], direction["labels"]) == ("Discrete", ["LEFT", "RIGHT"])
    assert kind["schema"]["required"] == ["direction"]
    assert (described["tools"], described["legal"]) == ([], None)


def test_an_environment_without_tools(serve: Serve) -> None:
    url = serve(slots=2)
    with GenericEnvClient(base_url=url).sync() as client:
        check_walk(client.describe_actions())
        client.reset()
        client.step({"direction": "LEFT"})
        check_walk(client.describe_actions())
    with gymnasium.make("openenv/Remote-v0", base_url=url) as env:
        check_walk(env.unwrapped.openenv.describe_actions())
        env.reset(seed=1)
        env.step(0)
        check_walk(env.unwrapped.openenv.describe_actions())


def test_an_environment_with_tools(launch: Launch, release: str) -> None:
    url = launch([openenv_program("python", release), ECHO, "{port}"])
    with AutoEnv.from_env("echo", base_url=url).sync() as client:
        described = client.describe_actions()
        assert [kind["name"] for kind in described["actions"]] == ["CallToolAction"]
        tools = {tool["name"]: tool for tool in described["tools"]}
        assert list(tools) == ["echo_message", "echo_with_length", "dawdle", "fail"]
        assert tools["echo_message"]["description"] == "Echo a message."
        assert tools["echo_message"]["input_schema"]["required"] == ["message"]
        assert client.reset().reward == 0.0
        assert client.call_tool("echo_message", message="Hi") == "Hi"
