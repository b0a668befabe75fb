"""The dispatcher: what clients of MCP and of OpenEnv are answered."""

from __future__ import annotations

import pytest

from openenv_gym.server import Environment, Mode
from openenv_gym.server.mcp.rpc import LATEST_VERSION, VERSIONS, ToolRpc
from tests.server.mcp.rooms import Room


@pytest.fixture
def room():
    environment = Room()
    environment.reset()
    yield environment
    environment.close()


def ask(rpc, method, id_=1, /, **params):
    return rpc.answer({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})


@pytest.fixture
def mcp(room):
    rpc = ToolRpc(room)
    ask(rpc, "initialize", protocolVersion=LATEST_VERSION, capabilities={}, clientInfo={})
    return rpc


@pytest.mark.parametrize(
    ("asked", "given"),
    [*((version, version) for version in VERSIONS), ("2099-01-01", VERSIONS[-1])],
)
def test_versions_are_agreed_on(room, asked, given):
    answer = ask(ToolRpc(room), "initialize", protocolVersion=asked)
    assert answer["result"]["protocolVersion"] == given
    assert answer["result"]["capabilities"] == {"tools": {"listChanged": False}}
    assert answer["result"]["serverInfo"]["name"] == "openenv-gym"


def test_initialize_without_a_version(room):
    assert ask(ToolRpc(room), "initialize")["error"]["code"] == -32602


def test_ping_and_notifications(mcp):
    assert ask(mcp, "ping", "x") == {"jsonrpc": "2.0", "id": "x", "result": {}}
    for name in ("initialized", "cancelled", "unheard_of"):
        assert mcp.answer({"jsonrpc": "2.0", "method": f"notifications/{name}"}) is None


def test_mcp_lists_and_calls(mcp):
    tools = {one["name"]: one for one in ask(mcp, "tools/list")["result"]["tools"]}
    assert tools["move"]["outputSchema"]["properties"] == {"result": {"type": "integer"}}
    assert tools["where.am-I"]["outputSchema"]["required"] == ["x"]
    assert "outputSchema" not in tools["nothing"]
    assert None not in tools["move"].values()
    assert ask(mcp, "tools/call", name="move", arguments={"steps": 2})["result"] == {
        "content": [{"type": "text", "text": "2"}],
        "structuredContent": {"result": 2},
        "isError": False,
    }
    picture = ask(mcp, "tools/call", name="picture")["result"]
    assert picture["content"][0]["mimeType"] == "image/png"
    assert "structuredContent" not in picture


def test_mcps_failures_are_for_the_model_to_read(mcp):
    failed = ask(mcp, "tools/call", name="fail")["result"]
    assert failed["isError"]
    assert "out of luck" in failed["content"][0]["text"]
    assert ask(mcp, "tools/call", name="move", arguments={})["result"]["isError"]
    assert ask(mcp, "tools/call", name="nope")["error"]["code"] == -32602


def test_openenv_lists_and_calls(room):
    rpc = ToolRpc(room)
    described = ask(rpc, "tools/list")["result"]["tools"][0]
    assert set(described) == {
        "name", "title", "description", "inputSchema", "outputSchema", "icons", "annotations",
        "meta", "execution",
    }  # fmt: skip
    assert ask(rpc, "tools/call", 7, name="move", arguments={"steps": 2}) == {
        "jsonrpc": "2.0",
        "id": 7,
        "result": {
            "content": [{"type": "text", "text": "2", "annotations": None, "meta": None}],
            "structured_content": {"result": 2},
            "meta": {"fastmcp": {"wrap_result": True}},
            "data": 2,
            "is_error": False,
        },
    }
    for name in ("nope", "fail"):
        assert ask(rpc, "tools/call", name=name)["error"]["code"] == -32603
    missing = ask(rpc, "tools/call")["error"]
    assert (missing["code"], missing["message"]) == (-32602, "Missing 'name' in params")


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({}, -32600),
        ([], -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "resources/list"}, -32601),
        (
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 3}},
            -32602,
        ),
        (
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": "move", "arguments": [1]},
            },
            -32602,
        ),
    ],
)
def test_what_is_refused(mcp, message, code):
    assert mcp.answer(message)["error"]["code"] == code


def test_an_environment_without_tools():
    class Plain(Environment):
        pass

    rpc = ToolRpc(Plain())
    assert ask(rpc, "tools/list")["result"] == {"tools": []}
    assert "there are none" in ask(rpc, "tools/call", name="x")["error"]["message"]


def test_production_has_other_tools(room, mcp):
    room.mode = Mode.PRODUCTION
    result = ask(mcp, "tools/call", name="secret")["result"]
    assert result["content"][0]["text"] == "production"
