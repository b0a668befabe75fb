"""``describe_actions`` of a foreign server that speaks OpenEnv's JSON."""

from __future__ import annotations

import json
from typing import Any

import gymnasium
import pytest

from openenv_gym import GenericEnvClient, errors
from tests.support.fake_openenv import FakeOpenEnv, observation


SCHEMA: dict[str, Any] = {
    "action": {
        "title": "DropAction",
        "description": "Drops a disc.\n\nNobody needs to read on.",
        "type": "object",
        "properties": {
            "metadata": {"type": "object"},
            "column": {"type": "integer", "minimum": 0, "maximum": 6, "description": "Where"},
            "speed": {"type": "number", "default": 1.0},
        },
        "required": ["column"],
    },
    "observation": {
        "type": "object",
        "properties": {"turn": {"type": "integer", "minimum": 0, "maximum": 9}},
    },
}
TOOL = {"name": "look", "description": None, "inputSchema": {"type": "object"}}


def script(mcp: Any) -> Any:
    def answer(session: Any, message: dict[str, Any]) -> Any:
        if message["type"] in ("reset", "step"):
            return observation({"turn": 1, "legal_actions": [1, 3]})
        if message["type"] == "state":
            return {"type": "state", "data": {}}
        return mcp

    return answer


def rpc(**answer: Any) -> dict[str, Any]:
    return {"type": "mcp", "data": {"jsonrpc": "2.0", "id": 1, **answer}}


UNKNOWN = rpc(error={"code": -32601, "message": "Method not found"})
REFUSED = {"type": "error", "data": {"message": "no such type", "code": "UNKNOWN_TYPE"}}
FAILED = {"type": "error", "data": {"message": "no tools", "code": "EXECUTION_ERROR"}}
ODD = rpc(result={"tools": [TOOL, "no tool", {"name": 3}, {"description": "nameless"}]})


def check(described: dict[str, Any], tools: list[str]) -> None:
    assert json.loads(json.dumps(described)) == described
    (kind,) = described["actions"]
    assert (kind["name"], kind["description"]) == ("DropAction", "Drops a disc.")
    assert kind["schema"] == SCHEMA["action"]
    column = kind["fields"]["column"]
    assert (column["low"], column["high"], column["required"]) == (0, 6, True)
    assert [tool["name"] for tool in described["tools"]] == tools


@pytest.mark.parametrize(
    ("mcp", "tools"),
    [
        (rpc(result={"tools": [TOOL]}), ["look"]),
        (UNKNOWN, []),
        (REFUSED, []),
        (FAILED, []),
        (ODD, ["look"]),
        (rpc(result={"tools": "none"}), []),
    ],
)
def test_a_client(mcp: Any, tools: list[str]) -> None:
    with (
        FakeOpenEnv(script(mcp), schema=SCHEMA) as server,
        GenericEnvClient(base_url=server.url) as client,
    ):
        described = client.describe_actions()
        check(described, tools)
        assert described["legal"] is None
        client.reset()
        assert client.describe_actions()["legal"] == [{"column": 1}, {"column": 3}]


@pytest.mark.parametrize(
    ("mcp", "tools"), [(rpc(result={"tools": [TOOL]}), ["look"]), (UNKNOWN, [])]
)
def test_an_environment_of_gymnasium(mcp: Any, tools: list[str]) -> None:
    with (
        FakeOpenEnv(script(mcp), schema=SCHEMA) as server,
        gymnasium.make("openenv/Remote-v0", base_url=server.url) as env,
    ):
        session = env.unwrapped.openenv
        check(session.describe_actions(), tools)
        assert session.describe_actions()["legal"] is None
        env.reset()
        assert session.describe_actions()["legal"] == [{"column": 1}, {"column": 3}]


def test_a_schema_that_is_no_space_is_told_as_it_is() -> None:
    action = {"title": "Any", "type": "object", "properties": {"x": {}}, "required": ["x"]}
    schema = {**SCHEMA, "action": action}
    with (
        FakeOpenEnv(script(UNKNOWN), schema=schema) as server,
        GenericEnvClient(base_url=server.url) as client,
    ):
        client.reset()
        described = client.describe_actions()
    assert described["actions"] == [
        {"name": "Any", "description": "", "schema": action, "fields": None}
    ]
    assert described["legal"] == [{"x": 1}, {"x": 3}]


@pytest.mark.parametrize(
    "claim", [3, {}, {"actions": 3, "tools": []}, {"actions": [3], "tools": []}]
)
def test_a_server_that_only_looks_like_ours(claim: Any) -> None:
    with (
        FakeOpenEnv(script(UNKNOWN), schema={**SCHEMA, "actions": claim}) as server,
        GenericEnvClient(base_url=server.url) as client,
    ):
        check(client.describe_actions(), [])


def test_a_server_without_a_schema() -> None:
    with FakeOpenEnv() as server, GenericEnvClient(base_url=server.url) as client:
        with pytest.raises(errors.NotAnOpenEnvServerError, match="schema"):
            client.describe_actions()
        assert client.reset().observation["count"] == 0
