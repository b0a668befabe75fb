"""OpenEnv's JSON and HTTP routes where several processes serve."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import threading
import urllib.parse
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from tests.server.openenv.conftest import Session, Site
from tests.server.workers.conftest import Command, Serve
from tests.support.waiting import eventually


SOMEWHERE = "tests.server.openenv.worlds:Somewhere"
KINDS = [("--workers", "2"), ("--isolate-sessions",)]


def site_of(command: Command) -> Site:
    address = urllib.parse.urlsplit(command.url)
    assert address.hostname is not None and address.port is not None
    return Site(address.hostname, address.port)


@pytest.fixture(params=KINDS, ids=["workers", "isolated"])
def kind(request: pytest.FixtureRequest) -> tuple[str, ...]:
    kind: tuple[str, ...] = request.param
    return kind


def pid_of(session: Session) -> int:
    pid: int = session.ask({"type": "state"})["data"]["pid"]
    return pid


def open_session(site: Site) -> tuple[Session, Any]:
    """Open a session; return it, and what it is told first."""
    session = site.session()
    with contextlib.suppress(ConnectionClosed):  # it was refused already
        session.send({"type": "reset"})
    return session, session.receive()


def test_sessions_are_elsewhere_and_spread(serve: Serve, kind: tuple[str, ...]) -> None:
    command = serve(*kind, environment=SOMEWHERE)
    with (site := site_of(command)).stack:
        sessions = [site.session() for _ in range(4)]
        for i, session in enumerate(sessions):
            assert session.reset(seed=i)["data"]["observation"]["at"] == i
        pids = [pid_of(session) for session in sessions]
        assert command.process.pid not in pids
        assert len(set(pids)) == (2 if "--workers" in kind else 4)
        for session in sessions:
            session.step(by=1)
        assert [session.step(by=1)["data"]["observation"]["at"] for session in sessions] == [
            2,
            3,
            4,
            5,
        ]


def test_requests_are_answered(serve: Serve, kind: tuple[str, ...]) -> None:
    site = site_of(serve(*kind, environment=SOMEWHERE))
    pids = {site.ask("GET", "/state").json()["pid"] for _ in range(4)}
    assert len(pids) >= 2
    assert site.ask("POST", "/reset", {"seed": 4}).json()["observation"]["at"] == 4
    note = "x" * (1 << 20)  # more than a letter holds
    answer = site.ask("POST", "/step", {"action": {"by": 4, "note": note}})
    assert answer.json()["observation"]["at"] == 4
    assert site.ask("POST", "/step", {"action": {}}).status == 422
    assert site.ask("POST", "/step", {"action": {"by": 13}}).json() == {"detail": "bad luck"}
    assert site.ask("GET", "/Somewhere/splits").status == 501
    assert site.ask("GET", "/metadata").json()["name"] == "Somewhere"
    assert "by" in site.ask("GET", "/schema").json()["action"]["properties"]
    assert "/step" in site.ask("GET", "/openapi.json").json()["paths"]


def test_frames_that_came_with_the_request_are_heard(serve: Serve, kind: tuple[str, ...]) -> None:
    site = site_of(serve(*kind, environment=SOMEWHERE))
    head = (
        b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    frames = b""
    for text in (b'{"type":"reset","data":{"seed":3}}', b'{"type":"close"}'):
        frames += bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text
    answer = site.raw(head + frames)
    assert answer.startswith(b"HTTP/1.1 101 ") and b'"at":3' in answer


def test_places_are_exact(serve: Serve, kind: tuple[str, ...]) -> None:
    command = serve(*kind, "--capacity", "3", environment=SOMEWHERE)
    with (site := site_of(command)).stack:
        binary = command.connect({})
        binary.call("reset", [None, None])
        first, _ = open_session(site)
        second, answer = open_session(site)
        assert answer["type"] == "observation"
        _, refused = open_session(site)
        assert refused["data"]["code"] == "CAPACITY_REACHED"
        assert refused["data"]["max_sessions"] == 3
        assert site.ask("POST", "/reset").status == 503
        assert site.ask("POST", "/reset", {"seed": -1}).status in (422, 503)
        assert site.ask("GET", "/health").status == 200

        first.socket.close()
        assert eventually(lambda: site.ask("POST", "/reset").status == 200)
        # Each of them took the place and gave it back, also those that were wrong.
        for _ in range(3):
            for body in (b"{", {"level": 13}, {}):
                assert eventually(lambda: site.ask("POST", "/reset", body).status != 503)  # noqa: B023
        assert eventually(lambda: open_session(site)[1].get("type") == "observation")
        assert open_session(site)[1]["data"]["code"] == "CAPACITY_REACHED"
        assert second.step(by=1)["type"] == "observation"


def test_many_requests_at_once_leave_no_place_taken(serve: Serve) -> None:
    site = site_of(serve("--workers", "2", "--capacity", "4", environment=SOMEWHERE))
    statuses: list[int] = []

    def ask() -> None:
        for _ in range(20):
            statuses.append(site.ask("POST", "/step", {"action": {"by": 1}}).status)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(statuses) == 160 and set(statuses) <= {200, 503} and 200 in statuses
    with site.stack:

        def all_places() -> bool:
            opened = [open_session(site) for _ in range(4)]
            try:
                return all(answer["type"] == "observation" for _, answer in opened)
            finally:
                for session, _ in opened:
                    session.socket.close()

        assert eventually(all_places)


def test_options_of_the_server_reach_the_environments(serve: Serve, kind: tuple[str, ...]) -> None:
    site = site_of(serve(*kind, "--option", "start=7", environment=SOMEWHERE))
    assert site.ask("POST", "/reset").json()["observation"]["at"] == 7
    with site.stack:
        assert site.session().reset(seed=1)["data"]["observation"]["at"] == 8


def test_a_worker_that_dies_takes_its_sessions_along_and_no_others(serve: Serve) -> None:
    command = serve("--workers", "2", environment=SOMEWHERE)
    with (site := site_of(command)).stack:
        sessions = [site.session() for _ in range(2)]
        for session in sessions:
            session.reset()
        pids = [pid_of(session) for session in sessions]
        os.kill(pids[0], signal.SIGKILL)
        with pytest.raises(ConnectionClosed):
            sessions[0].step(by=1)
        assert sessions[1].step(by=1)["type"] == "observation"

        def another_answers() -> bool:
            with contextlib.suppress(OSError, http.client.HTTPException):  # of who just died
                return site.ask("GET", "/state").json()["pid"] not in pids
            return False

        assert eventually(another_answers)


def test_a_token_is_asked_for(serve: Serve, tmp_path: Any) -> None:
    (tmp_path / "token").write_text("right")
    token = ("--token-file", str(tmp_path / "token"))
    site = site_of(serve("--workers", "2", *token, environment=SOMEWHERE))
    assert site.ask("POST", "/reset").status == 401
    headers = {"Authorization": "Bearer right", "Origin": site.url}
    assert site.ask("POST", "/reset", None, headers).status == 200
    with site.stack:
        assert site.session(additional_headers=headers).reset()["type"] == "observation"


# -- sessions at /mcp -----------------------------------------------------------------------------


def rpc(site: Site, method: str, headers: dict[str, str] | None = None, **params: Any) -> Any:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return site.ask("POST", "/mcp", message, headers)


HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "0"},
}


def test_a_session_of_mcp_is_where_it_began(serve: Serve, kind: tuple[str, ...]) -> None:
    command = serve(*kind, "--capacity", "2", environment="echo_env")
    site = site_of(command)
    begun = [rpc(site, "initialize", **HELLO) for _ in range(2)]
    ids = [answer.headers["Mcp-Session-Id"] for answer in begun]
    assert len({each.partition("-")[0] for each in ids}) == 2
    for session_id in ids * 2:
        headers = {"Mcp-Session-Id": session_id}
        called = rpc(
            site, "tools/call", headers, name="echo_message", arguments={"message": "hi"}
        ).json()
        assert called["result"]["content"][0]["text"] == "hi"
    # Both places are taken, which each protocol says in its own way.
    full = rpc(site, "openenv/session/create")
    assert (full.status, full.json()["error"]["code"]) == (200, -32000)
    assert site.ask("POST", "/reset").status == 503
    unknown = {"Mcp-Session-Id": "77-0"}
    assert rpc(site, "tools/list", unknown).status == 404
    assert site.ask("DELETE", "/mcp", None, unknown).status == 404

    assert site.ask("DELETE", "/mcp", None, {"Mcp-Session-Id": ids[0]}).status == 204
    assert rpc(site, "tools/list", {"Mcp-Session-Id": ids[0]}).status == 404
    assert eventually(lambda: "result" in rpc(site, "tools/list").json())
    assert rpc(site, "tools/list", {"Mcp-Session-Id": ids[1]}).status == 200


def test_a_session_whose_process_ends_is_unknown_to_who_asks_meanwhile(serve: Serve) -> None:
    site = site_of(serve("--isolate-sessions", environment="echo_env"))
    for _ in range(10):
        begun = rpc(site, "initialize", **HELLO).headers["Mcp-Session-Id"]
        named = {"Mcp-Session-Id": begun}
        assert site.ask("DELETE", "/mcp", None, named).status == 204
        assert [rpc(site, "tools/list", named).status for _ in range(3)] == [404] * 3


def test_a_session_of_openenv_is_where_it_began(serve: Serve, kind: tuple[str, ...]) -> None:
    command = serve(*kind, environment="echo_env")
    with (site := site_of(command)).stack:
        ids = [rpc(site, "openenv/session/create").json()["result"]["session_id"] for _ in "12"]
        for session_id in ids:
            called = rpc(
                site,
                "tools/call",
                name="echo_message",
                arguments={"message": "hi"},
                session_id=session_id,
            ).json()
            assert "result" in called
        # A WebSocket on the same session; another one gets an environment of its own.
        session = site.session(f"/ws?session_id={ids[1]}")
        assert session.ask({"type": "state"})["data"]["step_count"] == 1
        assert site.session().ask({"type": "state"})["data"]["step_count"] == 0
        assert site.session("/ws?session_id=99-x").receive()["data"]["code"] == "SESSION_ERROR"
        closed = rpc(site, "openenv/session/close", session_id=ids[0]).json()
        assert closed["result"] == {"session_id": ids[0], "closed": True}
        again = rpc(site, "openenv/session/close", session_id=ids[0]).json()
        assert again["error"]["code"] == -32602


def test_a_websocket_for_tools(serve: Serve, kind: tuple[str, ...]) -> None:
    with (site := site_of(serve(*kind, environment="echo_env"))).stack:
        session = site.session("/mcp")
        listed = session.ask({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert {tool["name"] for tool in listed["result"]["tools"]} >= {"echo_message"}
