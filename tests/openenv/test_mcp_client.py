"""`MCPToolClient` and `EchoEnv`, on our server and on one that answers as OpenEnv's does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from echo_env import CallToolAction, EchoAction, EchoEnv, EchoObservation, ListToolsAction
from echo_env.server.echo_environment import EchoEnvironment
from openenv_gym import CallToolObservation, ListToolsObservation, MCPToolClient, errors
from openenv_gym.server import create_app
from openenv_gym.server.mode import Mode
from tests.server.mcp.rooms import Room, Seen, Walk
from tests.support.fake_openenv import FakeOpenEnv, counting, observation
from tests.support.serving import serving


BOTH = pytest.mark.parametrize("protocol", ["binary", "json"])


class RoomClient(MCPToolClient):
    action_model = Walk
    observation_model = Seen


@pytest.fixture
def url() -> Iterator[str]:
    with serving(Room) as address:
        yield address


def openenv_echo(session: Any, message: dict[str, Any]) -> Any:
    """Answer as the echo server of OpenEnv 0.10 does."""
    data = message.get("data", {})
    if message["type"] == "reset":
        noted = {"status": "ready", "message": "Echo environment ready!"}
        return observation({}, 0.0, metadata=noted)
    if data.get("type") == "list_tools":
        tool = {"name": "echo_message", "description": "Echo", "input_schema": {"type": "object"}}
        return observation({"tools": [tool]})
    if data["tool_name"] != "echo_message":
        error = {"error_type": "tool_not_found", "message": "Unknown tool"}
        return observation({"tool_name": data["tool_name"], "result": None, "error": error})
    text = data["arguments"]["message"]
    result = {
        "content": [{"type": "text", "text": text, "annotations": None, "meta": None}],
        "structured_content": {"result": text},
        "meta": None,
        "data": text,
        "is_error": False,
    }
    return observation({"tool_name": "echo_message", "result": result, "error": None})


@BOTH
def test_tools_are_listed_and_called_beside_other_actions(url: str, protocol: Any) -> None:
    async def play() -> None:
        async with RoomClient(base_url=url, protocol=protocol) as client:
            assert (await client.reset()).observation == Seen(at=0)
            tools = {tool.name: tool for tool in await client.list_tools()}
            assert tools["move"].input_schema["properties"]["steps"]["type"] == "integer"
            assert await client.get_tool("move") == tools["move"]
            assert await client.get_tool("fly") is None
            assert await client.has_tool("move")
            assert not await client.has_tool("fly")
            assert await client.call_tool("move", steps=4) == 4
            assert await client.call_tool("nothing") is None
            assert await client.call_tool("go_to", place={"x": 7}) == {"x": 7}
            assert (await client.step(Walk(steps=2))).observation == Seen(at=9, reward=1.0)
            result = await client.step(CallToolAction(tool_name="move", arguments={"steps": 50}))
            assert (result.reward, result.done, result.observation.result) == (59.0, True, 59)
            assert isinstance((await client.step(ListToolsAction())).observation.tools, list)

    asyncio.run(play())


@BOTH
@pytest.mark.parametrize(
    ("name", "arguments", "error", "kind"),
    [
        ("fly", {}, errors.InvalidActionError, "tool_not_found"),
        ("move", {"steps": "far"}, errors.InvalidActionError, "invalid_args"),
        ("fail", {}, errors.EnvironmentFailedError, "execution_error"),
        ("dawdle", {"wait_s": 60.0}, errors.DeadlineExceededError, "timeout"),
    ],
)
def test_failures_of_tools_are_raised(
    url: str, protocol: Any, name: str, arguments: dict[str, Any], error: Any, kind: str
) -> None:
    with RoomClient(base_url=url, protocol=protocol).sync() as client:
        client.reset()
        with pytest.raises(error, match=name) as caught:
            client.call_tool(name, **arguments)
        assert caught.value.data["error_type"] == kind
        assert client.call_tool("move", steps=1) == 1


def test_a_time_limit_that_the_environment_keeps_is_its_answer(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openenv_gym.openenv.channels._ANSWER_S", 60.0)
    with RoomClient(base_url=url).sync() as client:
        client.reset()
        call = CallToolAction(tool_name="wait", arguments={"wait_s": 600.0})
        found = client.step(call, timeout_s=0.1).observation
        assert isinstance(found, CallToolObservation)
        assert found.error is not None and found.error.error_type.value == "timeout"


@BOTH
def test_echo_on_our_server(protocol: Any) -> None:
    with (
        serving(EchoEnvironment) as url,
        EchoEnv(base_url=url, protocol=protocol).sync() as client,
    ):
        result = client.reset()
        assert isinstance(result.observation, EchoObservation)
        assert result.observation.echoed_message == "Echo environment ready!"
        result = client.step(EchoAction(message="Hi"))
        assert (result.observation.echoed_message, result.reward) == ("Hi", 0.2)
        result = client.step(CallToolAction(tool_name="echo_message", arguments={"message": "Ho"}))
        assert result.observation.result == "Ho"
        said = client.call_tool("echo_with_length", message="Hello")
        assert said == {"message": "Hello", "length": 5}


def test_echo_on_a_server_of_openenv() -> None:
    with FakeOpenEnv(openenv_echo) as fake, EchoEnv(base_url=fake.url).sync() as client:
        result = client.reset()
        assert result.observation.echoed_message == "Echo environment ready!"
        assert (result.reward, result.metadata["status"]) == (0.0, "ready")
        assert [tool.name for tool in client.list_tools()] == ["echo_message"]
        assert client.call_tool("echo_message", message="Hi") == "Hi"
        with pytest.raises(errors.InvalidActionError, match="Unknown tool"):
            client.call_tool("fly")
        assert {"type": "call_tool", "tool_name": "fly", "arguments": {}} in [
            message.get("data") for message in fake.requests
        ]


def test_tools_are_asked_for_once() -> None:
    with FakeOpenEnv(openenv_echo) as fake, MCPToolClient(base_url=fake.url).sync() as client:
        client.list_tools()
        client.list_tools()
        assert len(fake.requests) == 1
        client.list_tools(use_cache=False)
        assert len(fake.requests) == 2
        assert isinstance(client.step(ListToolsAction()).observation, ListToolsObservation)


def test_an_environment_without_tools_is_told() -> None:
    with FakeOpenEnv(counting) as fake, MCPToolClient(base_url=fake.url).sync() as client:
        assert client.reset().observation.count == 0
        with pytest.raises(errors.ProtocolError, match="tools"):
            client.list_tools()
        with pytest.raises(errors.ProtocolError, match="tools"):
            client.call_tool("echo_message", message="Hi")


def test_production_mode_has_tools_and_no_control() -> None:
    with serving(replace(create_app(Room), mode=Mode.PRODUCTION)) as url:
        with MCPToolClient(base_url=url, mode="production").sync() as client:
            assert "secret" in [tool.name for tool in client.list_tools()]
            assert client.call_tool("secret") == "production"
            described = client.describe_actions()
            assert "secret" in [tool["name"] for tool in described["tools"]]
            assert [kind["name"] for kind in described["actions"]] == ["CallToolAction"]
            assert client.call_tool("mean", values=[1, 2]) == 1.5
            for name in ("fail", "fly"):
                with pytest.raises(errors.EnvironmentFailedError, match=name):
                    client.call_tool(name)
            for control in (client.reset, client.state, lambda: client.step(Walk(steps=1))):
                with pytest.raises(errors.ConfigurationError, match="production"):
                    control()
            assert client.call_tool("where.am-I")["x"] == 0
        with (
            MCPToolClient(base_url=url).sync() as client,
            pytest.raises(errors.OpenEnvGymError, match="production"),
        ):
            client.reset()


def test_production_mode_on_a_server_without_a_place() -> None:
    with (
        serving(Room, capacity=1) as url,
        MCPToolClient(base_url=url, mode="production").sync() as client,
    ):
        client.list_tools()
        with pytest.raises(errors.CapacityError) as caught:
            client.new_session().list_tools(use_cache=False)
        assert caught.value.data["capacity"] == 1
