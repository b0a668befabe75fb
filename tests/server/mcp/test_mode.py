"""Production: agents call tools, and nobody who connects controls the simulation."""

from __future__ import annotations

import json

import pytest
from websockets.sync.client import connect

from openenv_gym import errors
from openenv_gym.client.address import parse_base_url
from openenv_gym.client.connection import Connection
from openenv_gym.server import Mode, create_app
from tests.server.mcp.rooms import Room


def test_openenvs_json_calls_tools_and_nothing_else(make_site):
    site = make_site(mode=Mode.PRODUCTION)
    with connect(f"ws://127.0.0.1:{site.port}/ws", proxy=None) as ws:
        for kind in ("reset", "step", "state"):
            ws.send(json.dumps({"type": kind} | ({} if kind == "state" else {"data": {}})))
            answer = json.loads(ws.recv(60))
            assert answer["type"] == "error"
            assert "production" in answer["data"]["message"]
        params = {"name": "secret", "arguments": {}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        ws.send(json.dumps({"type": "mcp", "data": message}))
        assert json.loads(ws.recv(60))["data"]["result"]["data"] == "production"


def test_the_binary_protocol_calls_tools_and_nothing_else(make_site):
    site = make_site(mode=Mode.PRODUCTION)
    connection = Connection(parse_base_url(f"http://127.0.0.1:{site.port}"), {})
    for op, args in (("reset", [None, None]), ("step", [0]), ("state", []), ("get", ["at"])):
        with pytest.raises(errors.ForbiddenOperationError, match="production"):
            connection.call(op, args)
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "secret"}}
    assert connection.call("mcp", [message]).value["result"]["data"] == "production"
    connection.close()


def test_a_tool_acts_on_the_environment_of_the_binary_session(make_site):
    connection = Connection(parse_base_url(f"http://127.0.0.1:{make_site().port}"), {})
    connection.call("reset", [None, None])
    params = {"name": "move", "arguments": {"steps": 4}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    connection.call("mcp", [message])
    assert connection.call("step", [1]).value[0] == 5
    typed = {"tool_name": "move", "arguments": {"steps": 1}}
    called = connection.call("step_typed", [typed, 5.0]).value
    assert called[0] == {"tool_name": "move", "result": 6, "error": None}
    connection.close()


def test_agents_have_mcp_health_metadata_and_schema(make_site):
    site = make_site(mode=Mode.PRODUCTION)
    assert site.rpc("tools/call", name="secret")["result"]["data"] == "production"
    for path in ("/health", "/metadata", "/schema"):
        assert site.http("GET", path=path)[0] == 200
    for method, path in (("POST", "/reset"), ("POST", "/step"), ("GET", "/state")):
        assert site.http(method, {}, path=path)[0] in (404, 405)


def test_the_variable_names_the_mode(monkeypatch):
    monkeypatch.setenv("OPENENV_MODE", "Production")
    assert create_app(Room).mode is Mode.PRODUCTION
    monkeypatch.setenv("OPENENV_MODE", "test")
    with pytest.raises(errors.InvalidOptionError, match="OPENENV_MODE='test'"):
        create_app(Room)


@pytest.mark.parametrize("operation", ["reset", "step", "step_typed", "call", "restore_state"])
def test_what_is_refused(operation):
    Mode.SIMULATION.check(operation)
    with pytest.raises(errors.ForbiddenOperationError, match="production") as caught:
        Mode.PRODUCTION.check(operation)
    assert isinstance(caught.value, PermissionError)
    Mode.PRODUCTION.check("mcp")
