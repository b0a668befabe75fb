"""Tools, by `step` and by JSON-RPC: the same answers of OpenEnv's server and of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.openenv.asking import asked, said
from tests.integration.openenv.running import ours, theirs


pytestmark = [pytest.mark.openenv, pytest.mark.timeout(300)]

SCRIPT = Path(__file__).with_name("echo_server.py")
RESET = {"type": "reset"}
HI = {"message": "Hi"}


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[str, str]]:
    """Both servers: theirs, ours."""
    with theirs(SCRIPT) as one, ours("echo_env") as other:
        yield one, other


def step(**action: Any) -> Any:
    return {"type": "step", "data": action}


def call(**params: Any) -> Any:
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


def without_words(answer: Any) -> Any:
    """Return an answer without the words of errors, which are anybody's own."""
    if isinstance(answer, dict):
        words = {"message"} if answer.keys() & {"code", "error_type"} else set()
        return {name: without_words(part) for name, part in answer.items() if name not in words}
    return answer


@pytest.mark.parametrize(
    "action",
    [
        {"type": "call_tool", "tool_name": "echo_message", "arguments": HI},
        {"tool_name": "echo_message", "arguments": HI},
        {"tool_name": "echo_with_length", "arguments": HI},
        {"tool_name": "fly", "arguments": {}},
        {"tool_name": "echo_message", "arguments": {"massage": "Hi"}},
        {"tool_name": "echo_message"},
    ],
    ids=str,
)
def test_steps(pair: tuple[str, str], action: dict[str, Any]) -> None:
    expected, found = (without_words(said(url, [RESET, step(**action)])[1]) for url in pair)
    assert found == expected and found["type"] == "observation"


def test_a_list_of_tools(pair: tuple[str, str]) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    by_step, by_rpc = [], []
    for url in pair:
        data = said(url, [RESET, step(type="list_tools")])[1]["data"]
        tool = data["observation"].pop("tools")[0]
        by_step.append((tool["name"], set(tool), tool["input_schema"]["required"], data))
        tool = asked(url, "POST", "/mcp", request)[1]["result"]["tools"][0]
        by_rpc.append((tool["name"], set(tool), tool["inputSchema"]["required"]))
    assert by_step[0] == by_step[1] and by_rpc[0] == by_rpc[1]


REQUESTS = {
    "a call": call(name="echo_message", arguments=HI),
    "a result of several parts": call(name="echo_with_length", arguments=HI),
    "no such tool": call(name="fly", arguments={}),
    "wrong arguments": call(name="echo_message", arguments={"massage": "Hi"}),
    "no name": call(arguments={}),
    "no such method": {"jsonrpc": "2.0", "id": 7, "method": "fly"},
    "nothing": {},
}
OF_SESSIONS = {
    "no such session": call(name="echo_message", arguments=HI, session_id="nobody"),
    "no such session to close": {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "openenv/session/close",
        "params": {"session_id": "nobody"},
    },
    "no session named": {"jsonrpc": "2.0", "id": 7, "method": "openenv/session/close"},
    "no JSON": b"{",
}


@pytest.mark.parametrize("name", [*REQUESTS, *OF_SESSIONS])
def test_requests(pair: tuple[str, str], name: str) -> None:
    request = {**REQUESTS, **OF_SESSIONS}[name]
    expected, found = (asked(url, "POST", "/mcp", request) for url in pair)
    assert found[0] == expected[0] == 200
    assert without_words(found[1]) == without_words(expected[1])


@pytest.mark.parametrize("name", REQUESTS)
def test_messages_at_ws(pair: tuple[str, str], name: str) -> None:
    frame = {"type": "mcp", "data": REQUESTS[name]}
    expected, found = (without_words(said(url, [frame])[0]) for url in pair)
    assert found == expected


@pytest.mark.parametrize("name", REQUESTS)
def test_messages_at_mcp(pair: tuple[str, str], name: str) -> None:
    expected, found = (without_words(said(url, [REQUESTS[name]], "/mcp")[0]) for url in pair)
    assert found == expected


def test_a_session_and_its_websocket(pair: tuple[str, str]) -> None:
    answers = []
    for url in pair:
        create = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}
        session_id = asked(url, "POST", "/mcp", create)[1]["result"].pop("session_id")
        at_ws = said(
            url,
            [RESET, step(tool_name="echo_message", arguments=HI)],
            f"/ws?session_id={session_id}",
        )
        called = asked(
            url, "POST", "/mcp", call(name="echo_message", arguments=HI, session_id=session_id)
        )
        answers.append((at_ws[1], called))
    assert answers[0] == answers[1]
    answers = [without_words(said(url, [RESET], "/ws?session_id=nobody")) for url in pair]
    assert answers[0] == answers[1]
