"""Worker processes behind one address: nobody notices, until one dies."""

from __future__ import annotations

import concurrent.futures
import functools
import json
import os
import signal
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from openenv_gym import errors
from openenv_gym.client import Connection, UnixAddress
from openenv_gym.client.transport import Transport, encode_message
from openenv_gym.providers import ServerTarget
from openenv_gym.providers.process import ProcessProvider, ProcessServer
from openenv_gym.server import __main__ as command_line
from tests.server.test_metrics import figures_of
from tests.server.workers.conftest import Command, Serve, children, is_alive, run
from tests.support.waiting import eventually


def test_sessions_are_even_over_workers(serve: Serve) -> None:
    command = serve("--workers", "3")
    opened = [command.open() for _ in range(6)]
    assert sorted(Counter(pid for _, pid in opened).values()) == [2, 2, 2]
    assert command.process.pid not in {pid for _, pid in opened}
    # Where two of one worker end, it gets the next two.
    first = opened[0][1]
    for connection, pid in opened:
        if pid == first:
            connection.close()
    # Of which the supervisor hears a moment later.
    assert eventually(lambda: figures_of(command.url)["openenv_sessions_active"] == 4)
    assert [command.open()[1] for _ in range(2)] == [first, first]


def test_sessions_that_open_at_once_are_even_too(serve: Serve) -> None:
    command = serve("--workers", "2")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(lambda _: command.open(), range(8)))
    assert sorted(Counter(pid for _, pid in opened).values()) == [4, 4]


def test_a_session_is_resumed_where_it_is(serve: Serve) -> None:
    command = serve("--workers", "3")
    opened = [command.open({"value": number}) for number in range(6)]
    for number, (connection, pid) in enumerate(opened):
        run(connection, f"mine = {number}")
        connection._drop()
        assert run(connection, "import os\nresult = mine, os.getpid()") == (number, pid)


def test_a_session_is_resumed_by_its_token_alone(serve: Serve) -> None:
    command = serve("--workers", "2")
    connection, _ = command.open()
    name = connection.session_name
    for session in (name, "1-feed", "2-feed", "77-feed", "-", "1", "²-x", "9" * 40 + "-x"):
        client = Transport(
            UnixAddress(command.path), headers={}, timeout_s=60, max_frame_bytes=1 << 20
        )
        resume = {"session": session, "token": bytes(32), "epoch": 9, "ack": 0}
        client.send(encode_message([0, {"version": [1, 0], "resume": resume}]))
        _, _, error = client.receive_message(60)
        assert error["code"] == "session_lost"
        client.close(polite=False)
    assert run(connection, "result = 1") == 1


def test_hello_of_any_size_and_in_any_pieces(serve: Serve) -> None:
    command = serve("--workers", "2")
    for size in (10, 40_000, 900_000):
        value = "x" * size
        connection = command.connect({"value": value})
        assert connection.call("reset", [None, None]).value[1]["value"] == value
    client = Transport(UnixAddress(command.path), headers={}, timeout_s=60, max_frame_bytes=1 << 20)
    data = b"".join(
        bytes(part)
        for part in encode_message([0, {"version": [1, 0], "open": {"options": {}, "wait_s": 0}}])
    )
    # Pings before HELLO, among its parts, and a part of one right behind it.
    ping = b"\x89\x84\x00\x00\x00\x00ping"
    everything = ping + data + ping
    for begin in range(0, len(everything) - 3, 7):
        client._socket.sendall(everything[begin : min(begin + 7, len(everything) - 3)])
    assert client.receive_message(60)[0] == 16  # WELCOME
    client.send([everything[-3:]])
    client.send(encode_message([1, 1, 0, "reset", [None, None]]))
    assert client.receive_message(60)[:2] == [17, 1]
    client.close(polite=False)


def test_capacity_is_of_the_whole_and_clients_wait_for_a_place(serve: Serve) -> None:
    command = serve("--workers", "2", "--capacity", "3")
    opened = [command.open() for _ in range(3)]
    with pytest.raises(errors.CapacityError, match="3 of at most 3 sessions"):
        command.connect()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(command.open, wait_s=30.0)
        with pytest.raises(concurrent.futures.TimeoutError):
            waiting.result(0.3)
        opened[1][0].close()
        connection, pid = waiting.result(60)
    assert pid == opened[1][1]
    # One that is refused where it would be made gives its place back.
    connection.close()
    for _ in range(5):
        with pytest.raises(errors.InvalidOptionError, match="Unknown option 'nope'"):
            command.connect({"nope": 1}, wait_s=30.0)
    command.open(wait_s=30.0)


def test_who_leaves_while_waiting_takes_no_place(serve: Serve) -> None:
    command = serve("--workers", "2", "--capacity", "1")
    holder, _ = command.open()
    for _ in range(3):
        client = Transport(
            UnixAddress(command.path), headers={}, timeout_s=60, max_frame_bytes=1 << 20
        )
        body = {"version": [1, 0], "open": {"options": {}, "wait_s": 60}}
        client.send(encode_message([0, body]))
        client.close(polite=False)
    holder.close()
    command.open(wait_s=30.0)


def test_one_that_dies_takes_its_sessions_and_no_others(serve: Serve) -> None:
    command = serve("--workers", "2", "--capacity", "4")
    opened = [command.open({"value": number}) for number in range(4)]
    victim = opened[0][1]
    os.kill(victim, signal.SIGKILL)
    for number, (connection, pid) in enumerate(opened):
        if pid == victim:
            with pytest.raises((errors.SessionLostError, errors.ConnectionLostError)):
                run(connection, "result = 1")
        else:
            assert run(connection, f"result = {number}") == number
    # A fresh one takes its place, and the places of what was lost are free.
    again = [command.open(wait_s=30.0) for _ in range(2)]
    others = {pid for _, pid in opened} - {victim}
    assert eventually(lambda: len(children(command.process.pid)) == 2)
    assert victim not in {pid for _, pid in again}
    for connection, _ in again:
        connection.close()
    fresh = children(command.process.pid) - others
    assert eventually(lambda: _opens_in(command, fresh))
    assert f"(process {victim}) was killed by SIGKILL, and 2 sessions with it" in command.log()


def _opens_in(command: Command, pids: set[int]) -> bool:
    connection, pid = command.open(wait_s=30.0)
    connection.close()
    return pid in pids


def test_pauses_grow_where_workers_die_at_once(serve: Serve) -> None:
    command = serve("--workers", "2")
    victim = max(children(command.process.pid))
    for _ in range(3):
        before = children(command.process.pid)
        os.kill(victim, signal.SIGKILL)
        assert eventually(lambda b=before: len(children(command.process.pid) - b) == 1)  # type: ignore[misc]
        (victim,) = children(command.process.pid) - before
    pauses = [
        float(line.rpartition(" in ")[2].removesuffix(" s"))
        for line in command.log().splitlines()
        if "another one takes its place" in line
    ]
    assert pauses == sorted(set(pauses))
    assert len(pauses) == 3


def test_no_worker_outlives_the_supervisor(serve: Serve) -> None:
    command = serve("--workers", "2")
    connection, pid = command.open()
    workers = children(command.process.pid)
    assert pid in workers
    # One that cannot even notice: its only thread that runs holds Python's lock.
    stuck = "import re\nre.match('(a*)*b', 'a' * 64)"
    with pytest.raises(errors.DeadlineExceededError):
        connection.call("step", [stuck], timeout_s=0.5)
    command.process.kill()
    assert eventually(lambda: not any(is_alive(each) for each in workers))


def test_sigterm_drains_all_workers(serve: Serve) -> None:
    command = serve("--workers", "2", "--drain-s", "30")
    opened = [command.open() for _ in range(4)]
    command.process.send_signal(signal.SIGTERM)
    assert eventually(lambda: _health(command) == (503, "draining"))
    with pytest.raises(errors.ServerDrainingError):
        command.connect()

    def is_told(connection: Connection) -> bool:  # along with a reply
        assert run(connection, "result = 'goes on'") == "goes on"
        return "shutting down" in str(connection._session.going_away)

    for connection, _ in opened:
        assert eventually(functools.partial(is_told, connection))
        connection.close()
    assert command.process.wait(60) == 0
    assert not os.path.exists(command.path)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_twice_means_now(serve: Serve, signum: signal.Signals) -> None:
    command = serve("--workers", "2", "--drain-s", "600")
    command.open()
    workers = children(command.process.pid)
    command.process.send_signal(signum)
    assert eventually(lambda: "waiting up to 600 s for 1 open session" in command.log())
    command.process.send_signal(signum)
    assert command.process.wait(60) == 128 + signum
    assert eventually(lambda: not any(is_alive(pid) for pid in workers))


def test_the_routes_and_the_token(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    command = serve("--workers", "2", "--token-file", str(tmp_path / "token"))
    assert _health(command) == (200, "healthy")
    with pytest.raises(errors.UnauthorizedError):
        command.connect()
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{command.url}/metadata", timeout=30)
    caught.value.close()
    assert caught.value.code == 401
    assert _get(command, "/metadata", "s3cret")["name"] == "World"
    page = _get(command, "/schema", "s3cret")
    assert set(page) == {"action", "observation", "reset_observation", "state", "actions"}
    assert "World" in page["actions"]["actions"][0]["description"]
    assert page["action"]["properties"]["action"]["maxLength"] == 4096
    assert run(command.open(token="s3cret")[0], "result = 1") == 1


def _get(command: Command, path: str, token: str = "") -> Any:
    request = urllib.request.Request(
        command.url + path, headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def _health(command: Command) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"{command.url}/health", timeout=30) as answer:
            return answer.status, json.loads(answer.read())["status"]
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())["status"]


def test_what_cannot_be_loaded_ends_the_server_with_the_reason(serve: Serve) -> None:
    command = serve("--workers", "2", environment="nobody_env", wait=False)
    assert command.process.wait(60) == 1
    assert "UnknownEnvironmentError: No environment package 'nobody_env'" in command.log()
    assert "ServerStartError: Worker" in command.log()


def test_workers_and_isolated_sessions_exclude_each_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        command_line.main(["gymnasium", "--workers", "2", "--isolate-sessions"])
    assert "leave --workers away" in capsys.readouterr().err


# -- sub-environments -----------------------------------------------------------------------------


@pytest.mark.parametrize("workers", ["1", "2", "4"])
def test_sub_environments_depend_on_their_seeds_alone(serve: Serve, workers: str) -> None:
    command = serve("--workers", workers, environment="gymnasium")
    ours = gymnasium.make_vec(
        "openenv/CartPole-v1", num_envs=8, base_url=f"unix://{command.path}", num_servers=4
    )
    theirs = gymnasium.make_vec("CartPole-v1", num_envs=8, vectorization_mode="sync")
    numbers = Counter(
        member.connection.session_name.partition("-")[0]
        for member in ours._fleet.members  # type: ignore[attr-defined]
    )
    if workers != "1":
        assert sorted(numbers.values()) == [4 // int(workers)] * int(workers)
    theirs.action_space.seed(1)
    pairs = [(ours.reset(seed=3), theirs.reset(seed=3))]
    for _ in range(100):
        actions = theirs.action_space.sample()
        pairs.append((ours.step(actions), theirs.step(actions)))
    for mine, expected in pairs:
        for a, b in zip(mine[:-1], expected[:-1], strict=True):
            assert np.array_equal(a, b)
    ours.close()
    theirs.close()


# -- providers ------------------------------------------------------------------------------------


def test_a_process_provider_has_workers() -> None:
    server = ProcessProvider(workers=2).start(ServerTarget("gymnasium"))
    assert isinstance(server, ProcessServer)
    connections = [
        Connection(server.address, {"env_id": "CartPole-v1"}, connect_timeout_s=60)
        for _ in range(2)
    ]
    assert {each.session_name[:2] for each in connections} == {"1-", "2-"}
    workers = children(server.pid)
    assert len(workers) == 2
    for connection in connections:
        connection._drop()
        assert connection.call("reset", [1, None]).value[0].shape == (4,)
        connection.close()
    server.stop()
    assert eventually(lambda: not any(is_alive(pid) for pid in workers))


@pytest.mark.parametrize("workers", [0, -1, 1.5, "2", True, None])
def test_a_wrong_number_of_workers_is_told(workers: Any) -> None:
    with pytest.raises(errors.InvalidOptionError, match="workers=.*: expected an integer"):
        ProcessProvider(workers=workers)
