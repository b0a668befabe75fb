"""OpenEnv's JSON on a WebSocket."""

from __future__ import annotations

import contextlib
import json
import struct
import threading
import time
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from openenv_gym.protocol.limits import Limits
from openenv_gym.server import create_app
from tests.server.openenv.conftest import Serve, Session
from tests.server.openenv.worlds import Walk


def closing(session: Session) -> int:
    """Return the code with which the server closes, whatever it says before."""
    with pytest.raises(ConnectionClosed) as caught:
        for _ in range(100):
            session.socket.recv(20)
    assert caught.value.rcvd is not None
    return caught.value.rcvd.code


def test_an_episode(serve: Serve) -> None:
    session = serve().session()
    assert session.reset(seed=3, level=2, episode_id="me") == {
        "type": "observation",
        "data": {
            "observation": {"at": 3, "picture": [[3, 3], [3, 3]], "metadata": {}},
            "reward": None,
            "done": False,
        },
    }
    metadata = {"by": 90, "odd": [None, {"1": [2, 3]}]}
    assert session.step(by=90, note="x", metadata={"a": 1})["data"] == {
        "observation": {"at": 93, "picture": [[93, 93], [93, 93]], "metadata": metadata},
        "reward": 1.5,
        "done": False,
        "metadata": metadata,
    }
    state = {"episode_id": "me", "step_count": 1, "level": 2}
    assert session.ask({"type": "state"}) == {"type": "state", "data": state}
    ended = session.step(by=10)["data"]
    assert ended["done"] is True and "truncated" not in ended["metadata"]
    session.send({"type": "close"})
    assert closing(session) == 1000


def test_an_episode_that_was_cut_off_is_done_and_says_so(serve: Serve) -> None:
    session = serve().session()
    session.reset()
    steps = [session.step(by=1)["data"] for _ in range(10)]
    assert [step["done"] for step in steps] == [False] * 9 + [True]
    assert steps[-1]["metadata"]["truncated"] is True
    assert steps[-1]["observation"]["metadata"]["truncated"] is True


@pytest.mark.parametrize(
    ("message", "code", "says"),
    [
        ("{", "INVALID_JSON", "Expected JSON"),
        ("[" * 100_000, "INVALID_JSON", "nested too deep"),
        ("[1]", "VALIDATION_ERROR", "JSON object"),
        (b"\x00", "INVALID_JSON", "binary"),
        ({"type": "jump"}, "UNKNOWN_TYPE", "jump"),
        ({"data": {}}, "UNKNOWN_TYPE", "None"),
        ({"type": ["reset"]}, "UNKNOWN_TYPE", "reset"),
        ({"type": "step"}, "VALIDATION_ERROR", "'data' is missing"),
        ({"type": "step", "data": 3}, "VALIDATION_ERROR", "expected an object"),
        ({"type": "state", "more": 1}, "VALIDATION_ERROR", "more"),
        ({"type": "step", "data": {}}, "VALIDATION_ERROR", "by: Field required"),
        ({"type": "step", "data": {"by": "x"}}, "VALIDATION_ERROR", "by"),
        ({"type": "step", "data": {"by": 1, "to": 1}}, "VALIDATION_ERROR", "to"),
        ('{"type":"step","data":{"by":NaN}}', "VALIDATION_ERROR", "by"),
        ('{"type":"step","data":{"by":Infinity}}', "VALIDATION_ERROR", "by"),
        ({"type": "reset", "data": {"sed": 1}}, "VALIDATION_ERROR", "sed"),
        ({"type": "reset", "data": {"seed": -1}}, "VALIDATION_ERROR", "seed=-1"),
        ({"type": "reset", "data": {"seed": True}}, "VALIDATION_ERROR", "seed=True"),
        ({"type": "reset", "data": {"level": 13}}, "EXECUTION_ERROR", "no thirteenth floor"),
        ({"type": "step", "data": {"by": 13}}, "EXECUTION_ERROR", "bad luck"),
        ({"type": "step", "data": {"by": 14}}, "EXECUTION_ERROR", "3"),
    ],
)
def test_an_error_leaves_the_session_as_it_was(
    serve: Serve, message: Any, code: str, says: str
) -> None:
    session = serve().session()
    session.reset(seed=1)
    answer = session.ask(message)
    assert answer["type"] == "error" and answer["data"]["code"] == code
    assert says in answer["data"]["message"]
    assert ("errors" in answer["data"]) == (code == "VALIDATION_ERROR")
    assert session.step(by=1)["type"] == "observation"
    if "level" not in json.dumps(message, default=repr):
        assert session.step(by=1)["data"]["observation"]["at"] == 3


def test_nan_of_the_environment_is_null(serve: Serve) -> None:
    session = serve().session()
    session.reset()
    assert session.step(by=15)["data"]["reward"] is None


def test_a_step_before_a_reset(serve: Serve) -> None:
    session = serve().session()
    answer = session.step(by=1)
    assert answer["type"] == "error" and "before reset" in answer["data"]["message"]
    assert session.reset()["type"] == "observation"


def test_replies_come_in_order_also_where_nobody_waits_for_them(serve: Serve) -> None:
    session = serve().session()
    session.send({"type": "reset"})
    for i in range(50):
        session.send({"type": "step", "data": {"by": 1}} if i % 5 else "{")
    assert session.receive()["data"]["observation"]["at"] == 0
    kinds = [session.receive()["type"] for _ in range(50)]
    assert kinds == [("observation" if i % 5 else "error") for i in range(50)]


def test_frames_that_came_with_the_request_are_heard(serve: Serve) -> None:
    head = (
        b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    frames = b""
    for text in (b'{"type":"reset","data":{"seed":3}}', b'{"type":"close"}'):
        frames += bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text
    answer = serve().raw(head + frames)
    assert answer.startswith(b"HTTP/1.1 101 ") and b'"at":3' in answer


def test_who_comes_when_the_server_is_full_is_told_and_may_come_again(serve: Serve) -> None:
    site = serve(capacity=1)
    first, second = site.session(), None
    first.reset()
    second = site.session()
    assert second.receive() == {
        "type": "error",
        "data": {
            "message": "The server holds 1 of at most 1 sessions.",
            "code": "CAPACITY_REACHED",
            "active_sessions": 1,
            "max_sessions": 1,
        },
    }
    assert closing(second) == 1000
    first.socket.close()

    end_s = time.monotonic() + 20
    while True:
        third = site.session()
        with contextlib.suppress(ConnectionClosed):
            if third.reset()["type"] == "observation":
                break
        assert time.monotonic() < end_s
        time.sleep(0.05)


@pytest.mark.parametrize("says", [True, False])
def test_whoever_has_closed_may_open_another_one(serve: Serve, says: bool) -> None:
    class Slow(Walk):
        def close(self) -> None:
            time.sleep(0.2)

    site = serve(Slow, capacity=1)
    for _ in range(3):
        session = site.session()
        assert session.reset()["type"] == "observation"
        if says:
            session.send({"type": "close"})
        session.socket.close()


def test_who_closes_during_a_step_does_not_wait_for_it(serve: Serve) -> None:
    begun, gate = threading.Event(), threading.Event()

    class Slow(Walk):
        def step(self, action: Any) -> Any:
            begun.set()
            assert gate.wait(600)
            return super().step(action)

    session = serve(Slow).session()
    session.reset()
    session.send({"type": "step", "data": {"by": 1}})
    assert begun.wait(60)
    session.socket.close()
    assert session.socket.close_code == 1000  # and not that it was given up
    gate.set()


def test_an_environment_that_cannot_be_made(serve: Serve) -> None:
    def make() -> Walk:
        raise OSError("no floor")

    session = serve(create_app(make)).session()
    answer = session.receive()
    assert answer["data"] == {
        "message": "no floor",
        "code": "FACTORY_ERROR",
        "factory_name": "make",
    }
    assert closing(session) == 1000


def test_text_that_is_not_utf_8_ends_the_connection(serve: Serve) -> None:
    session = serve().session()
    session.reset()
    frame = b"\x81\x82\x00\x00\x00\x00\xff\xfe"
    session.socket.socket.sendall(frame)
    answer = session.receive()
    assert answer["data"]["code"] == "INVALID_JSON" and "UTF-8" in answer["data"]["message"]
    assert closing(session) == 1007


def test_a_large_message_is_taken(serve: Serve) -> None:
    session = serve().session()
    session.reset()
    assert session.step(by=1, note="x" * (17 << 20))["type"] == "observation"


def test_a_message_beyond_the_limit_ends_the_connection_and_is_not_kept(serve: Serve) -> None:
    site = serve(limits=Limits(max_frame_bytes=1 << 20))
    session = site.session()
    session.reset()
    header = b"\x81\xff" + struct.pack("!Q", 200 << 20) + bytes(4)
    session.socket.socket.sendall(header)
    with contextlib.suppress(OSError):  # it need not be taken, but must not hide what comes back
        for _ in range(200):
            session.socket.socket.sendall(bytes(1 << 20))
    answer = session.receive()
    assert answer["data"]["code"] == "VALIDATION_ERROR"
    assert str(200 << 20) in answer["data"]["message"]
    assert closing(session) == 1009


@pytest.mark.parametrize("token", [None, "wrong"])
def test_who_shows_no_token_is_not_let_in(serve: Serve, token: str | None) -> None:
    site = serve(token="right")
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with pytest.raises(InvalidStatus) as caught:
        site.session(additional_headers=headers)
    assert caught.value.response.status_code == 401
    assert site.ask("POST", "/reset", None, headers).status == 401
    right = {"Authorization": "Bearer right"}
    assert site.session(additional_headers=right).reset()["type"] == "observation"
    assert site.ask("POST", "/reset", None, right).status == 200


def test_pages_of_other_sites_are_not_let_in(serve: Serve) -> None:
    site = serve()
    with pytest.raises(InvalidStatus) as caught:
        site.session(origin="https://elsewhere.example")
    assert caught.value.response.status_code == 403
    assert site.ask("POST", "/reset", None, {"Origin": "https://elsewhere.example"}).status == 403
    assert site.session(origin=site.url).reset()["type"] == "observation"
