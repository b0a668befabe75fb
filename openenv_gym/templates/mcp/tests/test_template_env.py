"""Tools, rewards, ends, options, and the environment on a server."""

from __future__ import annotations

import json
from typing import Any

import gymnasium
import openenv_gym  # noqa: F401, it registers the ids
import pytest
from openenv_gym import CallToolObservation
from openenv_gym.errors import InvalidOptionError

from template_env import TemplateAction, TemplateEnv
from template_env.server.template_environment import TemplateEnvironment


def _call(environment: TemplateEnvironment, tool: str, **arguments: Any) -> CallToolObservation:
    seen = environment.step(TemplateAction(tool_name=tool, arguments=arguments))
    assert isinstance(seen, CallToolObservation)
    return seen


def test_the_door_ends_the_episode() -> None:
    environment = TemplateEnvironment(door=1)
    environment.reset(seed=0)
    assert _call(environment, "look").result == "The door is further on."
    seen = _call(environment, "walk", steps=1)
    assert (seen.result, seen.reward, seen.done, seen.truncated) == (1, 1.0, True, False)
    environment.close()


def test_too_many_calls_end_it_as_well() -> None:
    environment = TemplateEnvironment(max_calls=1)
    environment.reset(seed=0)
    seen = _call(environment, "walk", steps=50)
    assert (seen.done, seen.truncated) == (True, True)
    environment.close()


def test_a_wrong_call_is_an_error_that_an_agent_can_read() -> None:
    environment = TemplateEnvironment()
    environment.reset(seed=0)
    seen = _call(environment, "walk", steps="far")
    assert seen.error is not None
    environment.close()


@pytest.mark.parametrize("option", ["door", "max_calls"])
@pytest.mark.parametrize("value", [0, 1.5, None])
def test_wrong_options_are_named(option: str, value: Any) -> None:
    with pytest.raises(InvalidOptionError, match=option):
        TemplateEnvironment(**{option: value})


def test_on_a_server(server: str) -> None:
    env = gymnasium.make("openenv/Remote-v0", base_url=server, door=1)
    env.reset(seed=0)
    call = json.dumps({"tool_name": "walk", "arguments": {"steps": 1}})
    assert env.step(call)[1:3] == (1.0, True)
    env.close()
    with TemplateEnv(base_url=server).sync() as client:
        client.reset(seed=0)
        assert client.call_tool("walk", steps=2) == 2
