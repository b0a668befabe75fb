"""Sessions and addresses of a server."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from openenv_gym import errors
from openenv_gym.protocol.limits import Limits
from openenv_gym.server import Server, create_app, load_app
from openenv_gym.server.connection import Connection
from openenv_gym.server.host import EnvironmentHost
from openenv_gym.server.poller import SelectorPoller
from openenv_gym.server.session import Session
from tests.server.conftest import Site
from tests.support.waiting import eventually
from tests.support.worlds import BlockingEnv, CountingEnv


def get(site: Site, path: str) -> tuple[int, Any]:
    head, _, body = site.raw(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()).partition(
        b"\r\n\r\n"
    )
    text = body.decode()
    return int(head.split()[1]), json.loads(text) if text.startswith("{") else text


# -- sessions ---------------------------------------------------------------------------------


def test_a_full_server_says_so_and_waiting_gets_a_place(site: Site) -> None:
    server = site.start(capacity=2)
    first, second, third, fourth = (site.client() for _ in range(4))
    assert first.open()[0] == second.open()[0] == 16
    kind, _, error = third.open()
    assert (kind, error["code"]) == (18, "at_capacity")
    assert error["data"] == {"sessions": 2, "capacity": 2}
    waiting = threading.Timer(0.2, lambda: first.send(1, 1, 0, "close", []))
    waiting.start()
    assert fourth.open(wait_s=60)[0] == 16
    waiting.join()
    assert len(server.sessions) == 2
    fifth = site.client()
    begin_s = time.monotonic()
    assert fifth.open(wait_s=0.2)[2]["code"] == "at_capacity"
    assert time.monotonic() - begin_s >= 0.2


def test_whoever_has_closed_may_open_another_one(site: Site) -> None:
    class Slow(CountingEnv):
        def close(self) -> None:
            time.sleep(0.2)

    site.start(Slow, capacity=1)
    for _ in range(2):
        client = site.client()
        assert client.open()[0] == 16
        client.send(1, 1, 0, "close", [])
        assert client.receive()[:2] == [17, 1]


def test_idle_and_detached_sessions_end(site: Site) -> None:
    closed = threading.Event()

    class Closing(CountingEnv):
        def close(self) -> None:
            closed.set()

    server = site.start(Closing, limits=Limits(resume_grace_s=0.2, idle_timeout_s=0.4))
    site.client().open()
    assert closed.wait(60)  # idle
    closed.clear()
    leaving = site.client()
    leaving.open()
    leaving.close()
    assert closed.wait(60)  # detached
    assert eventually(lambda: len(server.sessions) == 0)


def test_a_session_that_nobody_has_heard_yet_does_not_expire() -> None:
    class Deaf:
        congested = False

        def send_packet(self, parts: Any) -> None: ...
        def finish(self) -> None: ...
        def fence(self) -> None: ...

    session = Session(
        Limits(resume_grace_s=0.1),
        EnvironmentHost(CountingEnv()),
        ended=lambda session: None,
        max_reply_bytes=1 << 20,
    )
    later_s = time.monotonic() + 100
    assert not session.expired(later_s)
    connection = Deaf()
    session.attach(connection, [])
    session.detach(connection)
    assert session.expired(later_s)


def test_a_client_that_is_dropped_while_it_shakes_hands_takes_no_place(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    upgrade = Connection._upgrade

    def late(connection: Connection, *args: Any) -> None:
        connection._drop()  # as another thread does when the time is over
        upgrade(connection, *args)

    server = site.start(capacity=1)
    monkeypatch.setattr(Connection, "_upgrade", late)
    head = b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    key = b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    for _ in range(3):
        assert site.raw(head + key) == b""
    assert eventually(lambda: not server._connections and not server.sessions.taken)
    assert "Unexpected failure" not in caplog.text


def test_drain_lets_sessions_finish_and_opens_none(site: Site) -> None:
    server = site.start()
    client, late = site.client(), site.client()
    client.open()
    client.send(1, 1, 0, "reset", [None, None])
    client.receive()
    done: list[bool] = []
    drain = threading.Thread(target=lambda: done.append(server.drain(60)))
    drain.start()
    assert client.receive() == [19, {"reason": "the server is shutting down", "after_s": 60}]
    assert get(site, "/health") == (503, {"status": "draining"})
    assert late.open()[2]["code"] == "draining"
    client.send(1, 2, 1, "step", [1])
    assert client.receive()[:2] == [17, 2]
    client.send(1, 3, 2, "close", [])
    client.receive()
    drain.join()
    assert done == [True]


def test_thread_affinity_keeps_an_environment_in_one_thread(site: Site) -> None:
    seen: dict[int, set[int]] = {}

    class Picky(CountingEnv):
        def __init__(self) -> None:
            super().__init__()
            seen[id(self)] = {threading.get_ident()}

        def step(self, action: Any) -> Any:
            seen[id(self)].add(threading.get_ident())
            return super().step(action)

        def close(self) -> None:
            seen[id(self)].add(threading.get_ident())

    site.start(Picky, thread_affinity=True)
    clients = [site.client() for _ in range(6)]
    for client in clients:
        client.open()
        client.send(1, 1, 0, "reset", [None, None])
        client.receive()
    for id_ in range(2, 20):
        for client in clients:
            client.send(1, id_, id_ - 1, "step", [1])
        for client in clients:
            client.receive()
    for client in clients:
        client.send(1, 20, 19, "close", [])
        client.receive()
    assert len(seen) == 6
    assert all(len(threads) == 1 for threads in seen.values())


def test_many_sessions_need_no_thread_each(site: Site) -> None:
    before = set(threading.enumerate())
    site.start()
    clients = [site.client() for _ in range(150)]
    for client in clients:
        assert client.open()[0] == 16
    for client in clients:
        client.send(1, 1, 0, "reset", [None, None])
    for client in clients:
        assert client.receive()[:2] == [17, 1]
    # On a busy machine it sends more of them, which end when there is nothing for them to do.
    assert eventually(lambda: len(set(threading.enumerate()) - before) < 12)


def test_the_portable_poller_serves_as_well(
    site: Site, blocking: type[BlockingEnv], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openenv_gym.server.pool.make_poller", SelectorPoller)
    site.start(blocking)
    client, other = site.client(), site.client()
    for each in (client, other):
        each.open()
        each.send(1, 1, 0, "reset", [None, None])
        assert each.receive()[:2] == [17, 1]
    client.send(1, 2, 1, "step", [3])
    other.send(1, 2, 1, "reset", [None, None])
    assert other.receive()[:2] == [17, 2]
    blocking.gate.set()
    assert client.receive()[2][0]["count"].tolist() == [1, 1, 3]


# -- addresses --------------------------------------------------------------------------------


def test_addresses_in_use(site: Site, tmp_path: Path) -> None:
    server = site.start()
    second = Server(create_app(CountingEnv))
    with pytest.raises(errors.AddressInUseError, match="in use"):
        second.listen_unix(site.path)
    host, port = server.listen_tcp("127.0.0.1", 0)
    with pytest.raises(errors.AddressInUseError, match=str(port)):
        second.listen_tcp(host, port)
    file = tmp_path / "file"
    file.write_text("precious")
    with pytest.raises(errors.AddressInUseError):
        second.listen_unix(str(file))
    assert file.read_text() == "precious"
    second.start()
    second.stop()


def test_a_stale_socket_is_replaced_and_removed(site: Site, tmp_path: Path) -> None:
    import socket

    stale = socket.socket(socket.AF_UNIX)
    stale.bind(site.path)
    stale.close()
    server = site.start()
    assert os.stat(site.path).st_mode & 0o777 == 0o600
    assert site.client().open()[0] == 16
    server.drain(0)
    site.close()
    assert not os.path.exists(site.path)
    site._servers.clear()


def test_unknown_environments_say_what_to_do() -> None:
    with pytest.raises(errors.UnknownEnvironmentError, match="pip install openenv-gym-nope"):
        load_app("nope_env")
    with pytest.raises(errors.UnknownEnvironmentError, match=r"\./envs/nope_env"):
        load_app("nope_env")
    with pytest.raises(errors.UnknownEnvironmentError, match="Did you mean echo_env"):
        load_app("echo")
    with pytest.raises(errors.UnknownEnvironmentError, match="--option env_id=CartPole-v1"):
        load_app("openenv/CartPole-v1")
    with pytest.raises(errors.UnknownEnvironmentError, match="my_module:MyEnvironment"):
        load_app("./guess.py")
    with pytest.raises(errors.UnknownEnvironmentError, match="no environment package.*gzip:NAME"):
        load_app("gzip")
    with pytest.raises(errors.UnknownEnvironmentError, match="nope does not exist"):
        load_app("openenv_gym.server:nope")


def test_any_gymnasium_id_is_hosted_without_its_time_limit() -> None:
    host = load_app("gymnasium").open({"env_id": "MountainCar-v0"})
    host.execute("reset", [0, None])
    assert not any(host.execute("step", [1])[0][3] for _ in range(300))
    with pytest.raises(errors.InvalidOptionError, match="remote itself"):
        load_app("gymnasium").open({"env_id": "openenv_gym:openenv/CartPole-v1"})
    assert "openenv/CartPole-v1" in gymnasium.registry
    host.close()


def test_a_connection_asks_for_no_logger(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    # That takes a lock of the process, with which Ctrl-C may have left a thread that connects.
    site.start()
    with monkeypatch.context() as patch:
        patch.setattr(logging, "getLogger", None)
        welcome = site.client().open()
    assert welcome[0] == 16


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_a_server_that_is_not_waited_for_leaves_no_descriptors(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for number in range(5):
        server = Server(create_app(CountingEnv))
        server.listen_unix(str(tmp_path / str(number)))
        server.start()
        server.stop(0.0)
    assert eventually(lambda: len(os.listdir("/proc/self/fd")) <= before)
