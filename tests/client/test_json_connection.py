"""Sessions on OpenEnv's JSON: replies that belong together, whatever happens on the way."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.client.background import run_blocking
from openenv_gym.client.json_connection import JsonConnection
from openenv_gym.client.web_socket import WebSocketOptions
from tests.support.fake_openenv import FakeOpenEnv, Gate, counting, observation
from tests.support.waiting import eventually


def count_of(data: dict[str, Any]) -> int:
    return data["observation"]["count"]


def gated() -> Gate:
    """Count, where the action says so only once the gate is open."""
    return Gate(lambda data: "wait" in data)


async def there(condition: Callable[[], bool]) -> None:
    """Wait for what another thread does, while the loop goes on."""
    assert await asyncio.to_thread(eventually, condition)


def test_requests_and_replies():
    async def play(url: str) -> None:
        connection = await JsonConnection.open(url)
        assert count_of(await connection.request("reset", {"seed": 3})) == 0
        assert count_of(await connection.request("step", {"a": 1})) == 1
        assert await connection.request("state") == {"episode_id": "e1", "step_count": 1}
        await connection.close()
        await connection.close()
        assert connection.closed
        with pytest.raises(errors.SessionClosedError, match="closed"):
            await connection.request("state")

    with FakeOpenEnv() as server:
        asyncio.run(play(server.url))
        assert eventually(lambda: {"type": "close"} in server.requests)  # has no reply
        assert server.requests == [
            {"type": "reset", "data": {"seed": 3}},
            {"type": "step", "data": {"a": 1}},
            {"type": "state"},
            {"type": "close"},
        ]


def test_a_message_too_many_ends_the_session():
    """There are no ids: every later reply would be taken for the one of the request before it."""

    arrived = threading.Event()

    async def twice(session, message):
        for _ in range(2):
            await session.socket.send(json.dumps(counting(session, message)))
        await (await session.socket.ping())  # whose answer comes when all before it was read
        arrived.set()

    async def play(url: str) -> None:
        connection = await JsonConnection.open(url)
        await connection.request("reset")
        await there(arrived.is_set)
        with pytest.raises(errors.ProtocolError, match="answers no request"):
            await connection.request("step", {"a": 1})
        with pytest.raises(errors.SessionLostError, match="answers no request"):
            await connection.request("step", {"a": 1})
        await connection.close()

    with FakeOpenEnv(twice) as server:
        asyncio.run(play(server.url))


def test_a_reply_that_comes_too_late_is_nobody_elses():
    gate = gated()

    async def play(server: FakeOpenEnv) -> None:
        connection = await JsonConnection.open(server.url)
        await connection.request("reset")
        with pytest.raises(errors.DeadlineExceededError, match="step within 2 s"):
            await connection.request("step", {"wait": True}, timeout_s=2)  # it is sent long before
        second = asyncio.create_task(connection.request("step", {"second": True}))
        await asyncio.to_thread(server.run, gate.open())
        data = await second
        assert (count_of(data), data["observation"]["last"]) == (2, {"second": True})
        await connection.close()

    with FakeOpenEnv(gate) as server:
        asyncio.run(play(server))


def test_a_request_whose_turn_never_came_is_not_sent():
    gate = gated()

    async def play(server: FakeOpenEnv) -> None:
        connection = await JsonConnection.open(server.url)
        await connection.request("reset")
        first = asyncio.create_task(connection.request("step", {"wait": True}))
        await there(gate.reached.is_set)
        with pytest.raises(errors.DeadlineExceededError):
            await connection.request("step", {"never": True}, timeout_s=0.02)
        await asyncio.to_thread(server.run, gate.open())
        await first
        assert count_of(await connection.request("step", {})) == 2
        await connection.close()

    with FakeOpenEnv(gate) as server:
        asyncio.run(play(server))
        assert {"type": "step", "data": {"never": True}} not in server.requests


def test_a_cancelled_task_leaves_the_session_usable():
    gate = gated()

    async def play(server: FakeOpenEnv) -> None:
        connection = await JsonConnection.open(server.url)
        await connection.request("reset")
        task = asyncio.create_task(connection.request("step", {"wait": True}))
        await there(gate.reached.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(server.run, gate.open())
        assert count_of(await connection.request("step", {})) == 2
        await connection.close()

    with FakeOpenEnv(gate) as server:
        asyncio.run(play(server))


def test_tasks_at_once_are_served_in_their_order():
    async def play(url: str) -> None:
        connection = await JsonConnection.open(url)
        await connection.request("reset")
        steps = [connection.request("step", {"number": number}) for number in range(1, 30)]
        for number, data in enumerate(await asyncio.gather(*steps), 1):
            assert (count_of(data), data["observation"]["last"]) == (number, {"number": number})
        await connection.close()

    with FakeOpenEnv() as server:
        asyncio.run(play(server.url))


def test_a_full_server_shows_in_the_first_request():
    async def play(url: str) -> None:
        first = await JsonConnection.open(url)
        await first.request("reset")
        second = await JsonConnection.open(url)
        with pytest.raises(errors.CapacityError, match="capacity") as caught:
            await second.request("reset")
        assert (caught.value.data["sessions"], caught.value.data["capacity"]) == (1, 1)
        with pytest.raises(errors.SessionLostError, match="capacity"):
            await second.request("reset")
        await second.close()
        await first.close()

    with FakeOpenEnv(max_sessions=1) as server:
        asyncio.run(play(server.url))


@pytest.mark.parametrize(
    ("reply", "error", "says"),
    [
        ("{", errors.DecodeError, "Expected JSON"),
        ("[1]", errors.ProtocolError, "type"),
        (b"\x00\xff", errors.DecodeError, "Expected"),
        (json.dumps({"type": "state", "data": {}}), errors.ProtocolError, "'observation'"),
        (
            json.dumps({"type": "error", "data": {"message": "boom", "code": "EXECUTION_ERROR"}}),
            errors.EnvironmentFailedError,
            "boom",
        ),
        (
            json.dumps({"type": "error", "data": {"message": "no", "code": "VALIDATION_ERROR"}}),
            errors.InvalidActionError,
            "no",
        ),
    ],
)
def test_a_bad_reply_is_a_typed_error_and_the_session_goes_on(reply, error, says):
    def script(session, message):
        return reply if "bad" in message.get("data", {}) else counting(session, message)

    async def play(url: str) -> None:
        connection = await JsonConnection.open(url)
        with pytest.raises(error, match=says):
            await connection.request("step", {"bad": True})
        assert count_of(await connection.request("step", {})) == 1
        await connection.close()

    with FakeOpenEnv(script) as server:
        asyncio.run(play(server.url))


def test_a_server_that_dies_in_a_step_is_told_at_once():
    gate = gated()

    async def play(server: FakeOpenEnv) -> None:
        connection = await JsonConnection.open(server.url)
        await connection.request("reset")
        task = asyncio.create_task(connection.request("step", {"wait": True}))
        await there(gate.reached.is_set)
        await asyncio.to_thread(server.kill_connections)
        with pytest.raises(errors.ConnectionLostError, match="broke the connection off"):
            await task
        with pytest.raises(errors.SessionLostError, match="broke the connection off"):
            await connection.request("step", {})
        await connection.close()

    with FakeOpenEnv(gate) as server:
        asyncio.run(play(server))


def test_close_ends_a_request_that_is_under_way():
    gate = gated()

    async def play(url: str) -> None:
        connection = await JsonConnection.open(url, WebSocketOptions(close_timeout_s=0.5))
        task = asyncio.create_task(connection.request("step", {"wait": True}))
        await there(gate.reached.is_set)
        await connection.close()
        with pytest.raises(errors.SessionClosedError):
            await task

    with FakeOpenEnv(gate) as server:
        asyncio.run(play(server.url))


def test_messages_that_are_too_large_for_either_side():
    def large(session, message):
        return observation({"text": "x" * 3000})

    async def play(url: str) -> None:
        ours = await JsonConnection.open(url, WebSocketOptions(max_message_bytes=2000))
        with pytest.raises(errors.FrameTooLargeError, match="than this client takes"):
            await ours.request("reset")
        with pytest.raises(errors.SessionLostError):
            await ours.request("reset")
        theirs = await JsonConnection.open(url)
        with pytest.raises(errors.FrameTooLargeError, match="too large for the server"):
            await theirs.request("step", {"text": "x" * (17 << 20)})
        await theirs.close()
        await ours.close()

    with FakeOpenEnv(large, max_size=16 << 20) as server:
        asyncio.run(play(server.url))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes", object()])
def test_what_json_has_no_form_for_is_refused_before_it_is_sent(value):
    async def play(url: str) -> None:
        connection = await JsonConnection.open(url)
        with pytest.raises(errors.EncodeError):
            await connection.request("step", {"value": value})
        assert count_of(await connection.request("step", {})) == 1
        await connection.close()

    with FakeOpenEnv() as server:
        asyncio.run(play(server.url))


def test_token_and_headers_are_sent():
    async def play(url: str) -> None:
        with pytest.raises(errors.UnauthorizedError):
            await JsonConnection.open(url)
        with pytest.raises(errors.UnauthorizedError):
            await JsonConnection.open(url, WebSocketOptions(token="wrong"))
        options = WebSocketOptions(headers={"X-Trace": "7"}, token="right")
        await (await JsonConnection.open(url, options)).close()

    assert "right" not in repr(WebSocketOptions(token="right"))
    with FakeOpenEnv(token="right") as server:
        asyncio.run(play(server.url))
        assert server.headers["X-Trace"] == "7"


def test_nothing_and_something_else_at_the_address(tmp_path: Path):
    async def play(url: str) -> None:
        with pytest.raises(errors.ServerUnreachableError, match="No server answers"):
            await JsonConnection.open(f"unix://{tmp_path}/nobody")
        with pytest.raises(errors.NotAnOpenEnvServerError, match="404"):
            await JsonConnection.open(f"{url}/elsewhere")
        with pytest.raises(errors.InvalidOptionError, match="no address"):
            await JsonConnection.open("ftp://x")

    with FakeOpenEnv() as server:
        asyncio.run(play(server.url))


def test_a_server_that_never_answers_the_handshake():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        options = WebSocketOptions(connect_timeout_s=0.2)
        with pytest.raises(errors.ServerUnreachableError, match="in time"):
            asyncio.run(JsonConnection.open(url, options))


def test_unix_sockets_and_tls(tmp_path: Path):
    async def play(url: str, options: WebSocketOptions) -> None:
        connection = await JsonConnection.open(url, options)
        assert count_of(await connection.request("step", {})) == 1
        await connection.close()

    with FakeOpenEnv(path=str(tmp_path / "s")) as server:
        asyncio.run(play(server.url, WebSocketOptions()))
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-keyout", str(key), "-out", str(certificate), "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(certificate, key)
    with FakeOpenEnv(ssl_context=theirs) as server:
        trusting = WebSocketOptions(ssl_context=ssl.create_default_context(cafile=certificate))
        asyncio.run(play(server.url, trusting))
        with pytest.raises(errors.ServerUnreachableError, match="certificate"):
            asyncio.run(play(server.url, WebSocketOptions()))


def test_blocking_use_also_in_a_running_loop_and_in_a_forked_child():
    async def in_a_loop(connection: JsonConnection) -> int:
        return count_of(run_blocking(connection.request("step", {})))

    async def inside() -> None:
        run_blocking(asyncio.sleep(0))

    with FakeOpenEnv() as server:
        connection = run_blocking(JsonConnection.open(server.url))
        assert count_of(run_blocking(connection.request("step", {}))) == 1
        assert asyncio.run(in_a_loop(connection)) == 2
        with pytest.raises(errors.ConfigurationError, match="inside the loop"):
            run_blocking(inside())
        assert _in_child(lambda: _plays_in_child(connection, server.url)) == 0
        assert count_of(run_blocking(connection.request("step", {}))) == 3
        run_blocking(connection.close())


def _plays_in_child(connection: JsonConnection, url: str) -> bool:
    try:
        run_blocking(connection.request("step", {}))
    except errors.ForkedSessionError:
        run_blocking(connection.close())
        own = run_blocking(JsonConnection.open(url))
        good = count_of(run_blocking(own.request("step", {}))) == 1
        run_blocking(own.close())
        return good
    return False


def _in_child(check: Any) -> int:
    """Return 0 where a check holds in a forked child."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if check() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_many_sessions_in_one_loop():
    async def play(url: str) -> None:
        async def one(number: int) -> list[int]:
            connection = await JsonConnection.open(url, WebSocketOptions(connect_timeout_s=60))
            counts = [count_of(await connection.request("step", {"n": number})) for _ in range(3)]
            await connection.close()
            return counts

        assert await asyncio.gather(*map(one, range(200))) == [[1, 2, 3]] * 200

    with FakeOpenEnv() as server:
        asyncio.run(play(server.url))
