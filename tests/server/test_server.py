"""A server, spoken to in the protocol itself."""

from __future__ import annotations

import contextlib
import json
import select
import time
from typing import Any

import pytest

from openenv_gym.client.transport import encode_message
from openenv_gym.protocol.limits import Limits
from openenv_gym.server.site import ConnectionState
from tests.server.conftest import Site
from tests.support.waiting import eventually
from tests.support.worlds import BlockingEnv


def get(site: Site, path: str) -> tuple[int, Any]:
    head, _, body = site.raw(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()).partition(
        b"\r\n\r\n"
    )
    text = body.decode()
    return int(head.split()[1]), json.loads(text) if text.startswith("{") else text


# -- HTTP -------------------------------------------------------------------------------------


def test_http_routes(site: Site) -> None:
    site.start()
    assert get(site, "/health") == (200, {"status": "healthy"})
    status, metadata = get(site, "/metadata")
    assert status == 200 and metadata["name"] == "CountingEnv"
    status, schemas = get(site, "/schema")
    kinds = {"action", "observation", "reset_observation", "state", "actions"}
    assert status == 200 and set(schemas) == kinds
    status, text = get(site, "/nowhere")
    assert status == 404 and "/health" in text
    status, text = get(site, "/ws")
    assert status == 426 and "WebSocket" in text


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"HELLO\r\n\r\n",
        b"GET /ws HTTP/9.9\r\n\r\n",
        b"GET " + b"x" * 20_000,
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 4000 + b"\r\n",
    ],
)
def test_what_is_not_http_gets_an_answer_and_the_server_lives(site: Site, data: bytes) -> None:
    site.start()
    assert site.raw(data).startswith(b"HTTP/1.1 4")
    assert get(site, "/health")[0] == 200


def test_a_silent_client_is_dropped(site: Site) -> None:
    site.start(limits=Limits(handshake_timeout_s=0.2))
    with contextlib.suppress(ConnectionError):  # it may be over before anything is said
        assert site.raw(b"GET /ws HT") == b""


def test_a_client_that_says_no_hello_is_dropped(site: Site) -> None:
    server = site.start(limits=Limits(handshake_timeout_s=60))
    client = site.client()
    states = [ConnectionState.HELLO]
    assert eventually(lambda: [each.state for each in server._connections] == states)
    server._keep_house(time.monotonic() + 61)
    with pytest.raises(OSError, match="no HELLO in time|closed"):
        client.receive()


# -- messages ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ([], "protocol_error"),
        ([99], "protocol_error"),
        ([1, 1, 0, "reset", []], "protocol_error"),
        ([0], "protocol_error"),
        ([0, {}], "protocol_error"),
        ([0, {"version": [2, 0], "open": {"options": {}}}], "version_mismatch"),
        ([0, {"version": "1.0", "open": {"options": {}}}], "protocol_error"),
        ([0, {"version": [1, 0], "open": {"options": []}}], "protocol_error"),
        ([0, {"version": [1, 0], "open": {"options": {}, "wait_s": -1}}], "protocol_error"),
        ([0, {"version": [1, 0], "open": {"options": {"bogus": 1}}}], "invalid_option"),
        ([0, {"version": [1, 0], "resume": {"session": "x"}}], "session_lost"),
    ],
)
def test_a_wrong_first_message_is_answered_with_its_error(
    site: Site, message: list[Any], code: str
) -> None:
    site.start()
    client = site.client()
    client.send(*message)
    kind, id_, error = client.receive()
    assert (kind, id_, error["code"]) == (18, None, code)
    assert error["message"]
    with pytest.raises(OSError):
        client.receive()


@pytest.mark.parametrize(
    ("op", "args", "code"),
    [
        ("fly", [], "protocol_error"),
        ("step", [], "protocol_error"),
        ("step", [1, 2, 3], "protocol_error"),
        ("step", [1], "reset_needed"),
        ("reset", [-1, None], "environment_failed"),
        ("reset", ["seed", None], "environment_failed"),
        ("get", ["nothing"], "environment_failed"),
        ("observe", [["nothing"]], "protocol_error"),
        ("restore_state", [None], "environment_failed"),
    ],
)
def test_a_wrong_request_leaves_the_session_alive(
    site: Site, op: str, args: list[Any], code: str
) -> None:
    site.start()
    client = site.client()
    client.open()
    client.send(1, 1, 0, op, args)
    kind, id_, error = client.receive()
    assert (kind, id_, error["code"]) == (18, 1, code)
    client.send(1, 2, 1, "reset", [3, None])
    assert client.receive()[:2] == [17, 2]


def test_requests_may_be_pipelined_and_come_back_in_order(site: Site) -> None:
    site.start()
    client = site.client()
    client.open(payload_bytes=20_000)
    client.send(1, 1, 0, "reset", [None, None])
    for id_ in range(2, 60):
        client.send(1, id_, 0, "step", [id_])
    replies = [client.receive() for _ in range(59)]
    assert [reply[1] for reply in replies] == list(range(1, 60))
    # Kept replies are what they were, though the environment reuses its array.
    for step, reply in enumerate(replies[1:], 1):
        assert (reply[2][0]["payload"] == step % 251).all()


def test_replies_are_kept_up_to_their_bound(site: Site) -> None:
    server = site.start(limits=Limits(retain_bytes=100_000))
    client = site.client()
    welcome = client.open(payload_bytes=20_000)[1]
    client.send(1, 1, 0, "reset", [None, None])
    for id_ in range(2, 20):
        client.send(1, id_, 0, "step", [id_])
    for _ in range(19):
        client.receive()
    (session,) = server.sessions.each()
    assert session.protocol.replies.size_bytes <= 100_000
    client.close()
    again = site.client()
    resume = {"session": welcome["session"], "token": welcome["token"], "epoch": 2, "ack": 0}
    again.send(0, {"version": [1, 0], "resume": resume})
    assert again.receive()[1]["received"] == 19
    replies = [again.receive() for _ in range(19)]
    assert [reply[1] for reply in replies] == list(range(1, 20))
    assert [reply[2]["code"] for reply in replies if reply[0] == 18] == ["session_lost"] * 15


def test_too_many_requests_in_flight(site: Site, blocking: type[BlockingEnv]) -> None:
    site.start(blocking, limits=Limits(max_pipelined=4))
    client = site.client()
    client.open()
    client.send(1, 1, 0, "reset", [None, None])
    client.receive()
    for id_ in range(2, 8):
        client.send(1, id_, 1, "step", [1])
    kind, id_, error = client.receive()
    assert (kind, id_, error["code"]) == (18, None, "protocol_error")
    assert "in flight" in error["message"]


def test_pings_cancels_and_other_sessions_are_served_during_a_long_step(
    site: Site, blocking: type[BlockingEnv]
) -> None:
    site.start(blocking)
    client, other = site.client(), site.client()
    for each in (client, other):
        each.open()
        each.send(1, 1, 0, "reset", [None, None])
        each.receive()
    client.send(1, 2, 1, "step", [5])
    client.send(1, 3, 1, "step", [6])
    client.send(1, 4, 1, "step", [7])
    client.send(2, 3)
    client.transport._socket.sendall(b"\x89\x82\x00\x00\x00\x00hi")  # a ping with a zero mask
    assert select.select([client.transport._socket], [], [], 60)[0]
    pong = client.transport._socket.recv(64)
    assert pong == b"\x8a\x02hi"
    other.send(1, 2, 1, "reset", [None, None])
    assert other.receive()[:2] == [17, 2]
    assert get(site, "/health")[0] == 200
    blocking.gate.set()
    assert client.receive()[2][0]["count"].tolist() == [1, 1, 5]
    assert client.receive()[2]["code"] == "cancelled"
    assert client.receive()[2][0]["count"].tolist() == [2, 1, 7]


def test_more_long_steps_than_threads_do_not_block_the_rest(
    site: Site, blocking: type[BlockingEnv]
) -> None:
    server = site.start(blocking, max_threads=6)
    clients = [site.client() for _ in range(12)]
    for client in clients:
        client.open()
        client.send(1, 1, 0, "reset", [None, None])
        client.receive()
    for client in clients:
        client.send(1, 2, 1, "step", [1])
    assert eventually(lambda: len(server.pool._deferred) == 7)  # one thread is for the rest
    assert get(site, "/health")[0] == 200
    blocking.gate.set()
    for client in clients:
        assert client.receive()[2][0]["count"].tolist() == [1, 1, 1]


def test_a_deadline_that_passed_while_waiting(site: Site) -> None:
    site.start()
    client = site.client()
    client.open(step_s=0.2)
    client.send(1, 1, 0, "reset", [None, None])
    client.receive()
    steps = ((2, 1), (3, 2, {"deadline_s": 0.05}), (4, 3))
    messages = [[1, id_, 1, "step", [action], *more] for id_, action, *more in steps]
    at_once = b"".join(b"".join(encode_message(message)) for message in messages)
    client.transport._socket.sendall(at_once)
    replies = [client.receive() for _ in range(3)]
    assert replies[1][2]["code"] == "deadline_exceeded"
    assert replies[2][2][0]["count"].tolist() == [2, 1, 3]


def test_a_frame_beyond_the_limit_is_refused_by_its_header(site: Site) -> None:
    site.start(limits=Limits(max_frame_bytes=1 << 20))
    client = site.client()
    client.open()
    client.transport._socket.sendall(b"\x82\xff" + (200 << 20).to_bytes(8, "big") + b"mask")
    kind, id_, error = client.receive()
    assert (kind, id_, error["code"]) == (18, None, "frame_too_large")
    assert error["data"] == {"size_bytes": 200 << 20, "max_bytes": 1 << 20}
    with pytest.raises(OSError, match="1009"):
        client.receive()


def test_garbage_in_a_frame_is_answered_and_closes(site: Site) -> None:
    site.start()
    client = site.client()
    client.open()
    client.transport._socket.sendall(b"\x82\x85\x00\x00\x00\x00\xff\xff\xff\xff\xff")
    assert client.receive()[2]["code"] == "decode_failed"
    with pytest.raises(OSError, match="1002"):
        client.receive()
