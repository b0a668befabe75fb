"""``/mcp``: the official SDK's client, OpenEnv's JSON-RPC, and what is refused."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import time

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK
from websockets.sync.client import connect

from openenv_gym.protocol.limits import Limits
from openenv_gym.server import tool
from tests.server.mcp.rooms import Room
from tests.support.waiting import eventually
from tests.support.worlds import CountingEnv


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}},
}


def begin(site) -> dict[str, str]:
    """Initialize, and return the headers of what follows."""
    status, headers, answer = site.http("POST", INITIALIZE)
    assert (status, answer["result"]["protocolVersion"]) == (200, "2025-06-18")
    return {"Mcp_Session_Id": headers["Mcp-Session-Id"], "MCP_Protocol_Version": "2025-06-18"}


# -- the official client ------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_official_client_lists_and_calls(site, mode):
    async def use():
        async with Client(site.url, mode=mode) as client:
            tools = {one.name: one for one in (await client.list_tools()).tools}
            moved = await client.call_tool("move", {"steps": 3})
            seen = await client.call_tool("where.am-I", {})
            picture = await client.call_tool("picture", {})
            failed = await client.call_tool("fail", {})
            with pytest.raises(MCPError, match="Unknown tool") as unknown:
                await client.call_tool("nope", {})
        assert tools["move"].description.startswith("Walk.")
        assert (moved.structured_content, moved.content[0].text) == ({"result": 3}, "3")
        assert seen.structured_content == {"x": 3, "y": 1.0}
        assert picture.content[0].mime_type == "image/png"
        assert failed.is_error
        assert unknown.value.error.code == -32602

    asyncio.run(use())
    # The client ends its session.
    assert eventually(lambda: site.open_sessions == 0)


def test_two_official_clients_have_sessions_of_their_own(site):
    async def use():
        async with Client(site.url) as one, Client(site.url) as other:
            await one.call_tool("move", {"steps": 3})
            await other.call_tool("move", {"steps": 40})
            assert eventually(lambda: site.open_sessions == 2)  # and what it tried first is over
            return [
                (await client.call_tool("where.am-I", {})).structured_content["x"]
                for client in (one, other)
            ]

    assert asyncio.run(use()) == [3, 40]


def test_the_official_client_shows_a_token(make_site):
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    site = make_site(token="secret")

    async def use(headers):
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(site.url, http_client=http)) as client,
        ):
            return (await client.call_tool("move", {"steps": 1})).structured_content

    assert asyncio.run(use({"Authorization": "Bearer secret"})) == {"result": 1}
    assert site.http("POST", INITIALIZE)[0] == 401
    assert eventually(lambda: site.open_sessions == 0)


# -- streamable HTTP ----------------------------------------------------------------------------


def test_the_transport_of_mcp(site):
    headers = begin(site)
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert site.http("POST", ready, **headers)[::2] == (202, b"")
    assert site.rpc("ping", headers)["result"] == {}
    result = site.rpc("tools/call", headers, name="move", arguments={"steps": 2})["result"]
    assert result["structuredContent"] == {"result": 2}
    status, answer_headers, _ = site.http("GET", **headers)
    assert (status, answer_headers["Allow"]) == (405, "POST, DELETE")
    assert site.http("DELETE", **headers)[0] == 204
    assert site.open_sessions == 0
    status, _, answer = site.http("POST", {**ready, "id": 2, "method": "ping"}, **headers)
    assert (status, answer["id"]) == (404, 2)
    assert site.http("DELETE", **headers)[0] == 404
    assert site.http("DELETE")[0] == 400


def test_an_unknown_version_in_the_header(site):
    headers = {**begin(site), "MCP_Protocol_Version": "2031-01-01"}
    status, _, answer = site.http("POST", {**INITIALIZE, "method": "tools/list"}, **headers)
    assert status == 400
    assert "expected one of 2024-11-05" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        # A page whose own name was made to lead here (DNS rebinding).
        ({"Origin": "http://evil.example", "Host": "evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:7", "Host": "localhost:7"}, 200),
        ({"Origin": "http://127.0.0.1:7", "Host": "127.0.0.1:7"}, 200),
        ({"Origin": "https://me.hf.space", "Host": "me.hf.space"}, 200),
    ],
)
def test_pages_of_other_sites_are_refused(make_site, monkeypatch, headers, status):
    monkeypatch.setenv("OPENENV_ALLOWED_HOSTS", "one.example, Me.hf.space")
    assert make_site().http("POST", INITIALIZE, **headers)[0] == status


def test_sessions_that_nobody_uses_end(make_site):
    site = make_site(limits=Limits(idle_timeout_s=0.2))
    headers = begin(site)
    assert eventually(lambda: site.open_sessions == 0)
    assert site.http("POST", {**INITIALIZE, "method": "ping"}, **headers)[0] == 404


def test_a_slow_tool_keeps_nobody_else_waiting(make_site, holding):
    site = make_site(holding)
    headers = begin(site)

    async def use():
        call = asyncio.to_thread(site.rpc, "tools/call", headers, name="hold", arguments={})
        slow = asyncio.create_task(call)
        await asyncio.sleep(0.1)
        health = await asyncio.to_thread(site.http, "GET", path="/health")
        assert not slow.done()
        holding.gate.set()
        return health[0], (await slow)["result"]["isError"]

    assert asyncio.run(use()) == (200, False)


# -- OpenEnv's JSON-RPC -------------------------------------------------------------------------


def test_sessions_of_openenv(site):
    ids = [site.rpc("openenv/session/create")["result"]["session_id"] for _ in range(2)]
    for id_, steps in zip(ids, (3, 40), strict=True):
        arguments = {"name": "move", "arguments": {"steps": steps}, "session_id": id_}
        assert site.rpc("tools/call", **arguments)["result"]["data"] == steps
    again = {"name": "move", "arguments": {"steps": 0}, "session_id": ids[0]}
    assert site.rpc("tools/call", **again)["result"]["data"] == 3
    closed = site.rpc("openenv/session/close", session_id=ids[0])["result"]
    assert closed == {"session_id": ids[0], "closed": True}
    for answer in (site.rpc("tools/call", **again), site.rpc("openenv/session/close", **again)):
        assert answer["error"]["code"] == -32602
        assert answer["error"]["message"] == f"Unknown session_id: {ids[0]}"
    assert site.rpc("openenv/session/close")["error"]["code"] == -32602
    assert site.open_sessions == 1


def test_without_a_session_each_call_has_an_environment_of_its_own(site):
    call = {"name": "move", "arguments": {"steps": 2}}
    assert [site.rpc("tools/call", **call)["result"]["data"] for _ in range(2)] == [2, 2]
    assert site.rpc("tools/list")["result"]["tools"][0]["name"] == "move"
    assert eventually(lambda: site.open_sessions == 0)


def test_a_full_server_says_so(make_site):
    site = make_site(capacity=1)
    site.rpc("openenv/session/create")
    for method in ("openenv/session/create", "tools/list"):
        error = site.rpc(method)["error"]
        assert error["code"] == -32000
        assert error["data"] == {"active_sessions": 1, "max_sessions": 1}
    status, headers, answer = site.http("POST", INITIALIZE)
    assert (status, answer["error"]["code"]) == (200, -32000)
    assert "Mcp-Session-Id" not in headers


def test_an_environment_that_cannot_be_made(make_site):
    def broken():
        raise RuntimeError("no luck")

    site = make_site(broken)
    for method in ("openenv/session/create", "tools/list", "initialize"):
        error = site.rpc(method)["error"]
        assert (error["code"], error["data"]) == (-32000, {"factory_name": "broken"})
        assert "no luck" in error["message"]
    with connect(site.url.replace("http", "ws"), proxy=None) as socket:
        assert json.loads(socket.recv(60))["error"] == error


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"{", -32700), (b"\xff\xfe", -32700), ({}, -32600), ([INITIALIZE], -32600), (None, -32600)],
)
def test_bad_bodies_are_answered_as_openenv_does_with_status_200(site, body, code):
    status, _, answer = site.http("POST", body)
    assert (status, answer["jsonrpc"], answer["error"]["code"]) == (200, "2.0", code)
    assert site.rpc("resources/list")["error"]["code"] == -32601
    assert site.open_sessions == 0


def test_an_environment_without_tools_has_an_empty_list(make_site):
    assert make_site(CountingEnv).rpc("tools/list")["result"] == {"tools": []}


# -- WebSockets ---------------------------------------------------------------------------------


def test_a_websocket_of_json_rpc(site):
    def ask(ws, method, **params):
        ws.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
        return json.loads(ws.recv(60))

    url = f"ws://127.0.0.1:{site.port}/mcp"
    with connect(url, proxy=None) as one, connect(url, proxy=None) as other:
        move = {"name": "move", "arguments": {"steps": 3}}
        assert [ask(one, "tools/call", **move)["result"]["data"] for _ in "ab"] == [3, 6]
        assert ask(other, "tools/call", **move)["result"]["data"] == 3
        one.send("{")
        assert json.loads(one.recv(60))["error"]["code"] == -32700
        one.send(b"\x00")
        assert json.loads(one.recv(60))["error"]["code"] == -32700
        one.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        assert ask(one, "initialize", protocolVersion="2024-11-05")["result"]["capabilities"]
        assert ask(one, "tools/call", **move)["result"]["structuredContent"] == {"result": 9}
        assert site.open_sessions == 2
    assert eventually(lambda: site.open_sessions == 0)


def test_a_websocket_on_a_session_of_http(site):
    def ask(ws, kind, data):
        ws.send(json.dumps({"type": kind, "data": data}))
        return json.loads(ws.recv(60))["data"]

    id_ = site.rpc("openenv/session/create")["result"]["session_id"]
    url = f"ws://127.0.0.1:{site.port}/ws?session_id="
    move = {"name": "move", "arguments": {"steps": 3}, "session_id": id_}
    with connect(url + id_, proxy=None) as ws:
        assert ask(ws, "reset", {})["observation"]["at"] == 0
        assert site.rpc("tools/call", **move)["result"]["data"] == 3
        assert ask(ws, "step", {"steps": 1})["observation"]["at"] == 4
        assert ask(ws, "step", {"steps": 77})["code"] == "VALIDATION_ERROR"
        for other in (id_, "unknown"):
            with connect(url + other, proxy=None) as refused:
                assert json.loads(refused.recv(60))["data"]["code"] == "SESSION_ERROR"
        assert site.open_sessions == 1
    assert eventually(lambda: not site.server.mcp._attached)
    assert site.rpc("tools/call", **move)["result"]["data"] == 7
    with connect(url + id_, proxy=None) as ws:
        ask(ws, "state", {})  # it has the session only after the handshake
        closing = site.rpc("openenv/session/close", session_id=id_)["result"]
        assert closing == {"session_id": id_, "closed": False, "closing": True}
        assert ask(ws, "step", {"steps": 1})["observation"]["at"] == 8
        ws.send('{"type": "close"}')
        with pytest.raises(ConnectionClosedOK):  # the server's word, not ours
            ws.recv(60)
    assert eventually(lambda: site.open_sessions == 0)


def test_a_tool_acts_on_the_environment_that_is_stepped(site):
    def ask(ws, kind, data):
        ws.send(json.dumps({"type": kind, "data": data}))
        return json.loads(ws.recv(60))["data"]

    with connect(f"ws://127.0.0.1:{site.port}/ws", proxy=None) as ws:
        ask(ws, "reset", {})
        ask(ws, "step", {"type": "call_tool", "tool_name": "move", "arguments": {"steps": 4}})
        rpc = {"name": "move", "arguments": {"steps": 3}}
        called = ask(ws, "mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": rpc})
        assert called["result"]["data"] == 7
        assert ask(ws, "step", {"steps": 1})["observation"]["at"] == 8


def test_a_websocket_on_a_session_has_so_many_requests_in_flight(make_site, holding):
    site = make_site(holding)
    id_ = site.rpc("openenv/session/create")["result"]["session_id"]
    url = f"ws://127.0.0.1:{site.port}/ws?session_id={id_}"
    wait = {"type": "call_tool", "tool_name": "hold", "arguments": {}}
    with connect(url, proxy=None) as ws:
        ws.send(json.dumps({"type": "step", "data": wait}))
        for _ in range(site.server.limits.max_pipelined + 1):
            ws.send(json.dumps({"type": "state"}))
        assert "in flight" in json.loads(ws.recv(60))["data"]["message"]
        with pytest.raises(ConnectionClosed):
            ws.recv(60)
    assert eventually(lambda: not site.server.mcp._attached)
    assert site.rpc("openenv/session/close", session_id=id_)["result"]["closed"]


def test_a_websocket_on_a_session_that_is_not_read_stops_the_work(make_site):
    class Talker(Room):
        told = 0

        @tool
        def talk(self) -> str:
            Talker.told += 1
            return "x" * (1 << 20)

    site = make_site(Talker)
    id_ = site.rpc("openenv/session/create")["result"]["session_id"]
    url = f"ws://127.0.0.1:{site.port}/ws?session_id={id_}"
    talk = {"type": "call_tool", "tool_name": "talk", "arguments": {}}
    with connect(url, proxy=None, max_size=None, max_queue=1) as ws:
        for _ in range(40):
            ws.send(json.dumps({"type": "step", "data": talk}))
        assert eventually(lambda: Talker.told > 0)
        told = 0
        while told != Talker.told:  # until it rests
            told = Talker.told
            time.sleep(0.5)
        assert told < 30
        for _ in range(40):
            assert len(ws.recv(60)) > 1 << 20
    assert Talker.told == 40


def test_calls_of_one_session_keep_no_other_session_waiting(make_site, holding):
    site = make_site(holding, max_threads=20)
    session = begin(site)
    call = {"name": "hold", "arguments": {}}
    with concurrent.futures.ThreadPoolExecutor(40) as threads:
        calls = [threads.submit(site.rpc, "tools/call", session, **call) for _ in range(40)]
        assert eventually(lambda: any(each.done() for each in calls))  # some are refused
        assert "session_id" in site.rpc("openenv/session/create")["result"]
        assert not all(each.done() for each in calls)
        holding.gate.set()
        answers = [each.result() for each in calls]
    refused = [each["error"]["message"] for each in answers if "error" in each]
    assert refused and all("under way" in each for each in refused)
    assert any(not each["result"]["isError"] for each in answers if "result" in each)
