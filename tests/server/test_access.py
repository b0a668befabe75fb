"""Who may use a server: exposure, tokens, bounds of a single peer, and the limits that all have."""

from __future__ import annotations

import contextlib
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.client import Connection, parse_base_url
from openenv_gym.protocol.limits import Limits
from openenv_gym.server import Server, create_app
from openenv_gym.server.listening import Exposure
from openenv_gym.server.peers import forwarded_peer, group_of, peer_of
from tests.support.serving import serving
from tests.support.waiting import eventually
from tests.support.worlds import CountingEnv


# -- exposure -------------------------------------------------------------------------------------


@pytest.fixture
def stopped() -> Iterator[list[Server]]:
    made: list[Server] = []
    yield made
    for server in made:
        server.start()
        server.stop()


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::"])
def test_nobody_is_let_in_by_mistake(stopped: list[Server], host: str) -> None:
    server = Server(create_app(CountingEnv))
    stopped.append(server)
    with pytest.raises(errors.InvalidOptionError, match="no token.*OPENENV_TOKEN_FILE") as caught:
        server.listen_tcp(host, 0)
    assert caught.value.field == "host"
    for said in ("--exposure container", "public", "OPENENV_EXPOSURE", "127.0.0.1"):
        assert said in str(caught.value)


@pytest.mark.parametrize(
    "allowed", [{"token": "t"}, {"exposure": Exposure.CONTAINER}, {"exposure": Exposure.PUBLIC}]
)
def test_who_may_be_reached_says_so(stopped: list[Server], allowed: dict[str, Any]) -> None:
    server = Server(create_app(CountingEnv), **allowed)
    stopped.append(server)
    assert server.listen_tcp("0.0.0.0", 0)[1] > 0


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "localhost", "::1"])
def test_the_loopback_interface_needs_no_token(stopped: list[Server], host: str) -> None:
    server = Server(create_app(CountingEnv))
    stopped.append(server)
    assert server.listen_tcp(host, 0)[1] > 0


def test_a_command_that_does_not_say_who_may_come(command: Any) -> None:
    refused = command("--host", "0.0.0.0")
    assert refused.process.wait(60) == 1
    assert "InvalidOptionError: Will not listen on 0.0.0.0:0" in refused.log()
    assert "--exposure container" in refused.log()


def test_an_exposure_that_is_none(command: Any) -> None:
    refused = command(OPENENV_EXPOSURE="everything")
    assert refused.process.wait(60) == 2
    assert "OPENENV_EXPOSURE='everything': expected container or public" in refused.log()


def test_a_token_of_the_environment(command: Any, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    url = command("--host", "0.0.0.0", OPENENV_TOKEN_FILE=str(tmp_path / "token")).url()
    with pytest.raises(errors.UnauthorizedError, match="OPENENV_TOKEN_FILE"):
        Connection(parse_base_url(url), {"env_id": "CartPole-v1"}, timeout_s=20)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{url}/metrics", timeout=20)
    caught.value.close()
    assert caught.value.code == 401
    address = parse_base_url(url)
    Connection(address, {"env_id": "CartPole-v1"}, token="s3cret", timeout_s=20).close()


def test_everybody_gets_less(command: Any) -> None:
    url = command("--exposure", "public", "--capacity", "7").url()
    text = urllib.request.urlopen(f"{url}/metrics", timeout=20).read().decode()
    assert "openenv_sessions_capacity 7\n" in text  # what was asked for goes before
    address, options = parse_base_url(url), {"env_id": "CartPole-v1"}
    connection = Connection(address, options, timeout_s=20)
    limits = connection._session.limits
    assert (limits["max_frame_bytes"], limits["idle_timeout_s"]) == (16 << 20, 600.0)
    connection.close()


# -- peers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peer", "group"),
    [
        (peer_of(("192.0.2.7", 1234)), "192.0.2.7"),
        (peer_of(("2001:db8:1:2:3:4:5:6", 1234, 0, 0)), "2001:db8:1:2::/64"),
        ("2001:db8:1:2:9::1", "2001:db8:1:2::/64"),
        (peer_of(("::ffff:192.0.2.7", 1, 0, 0)), "192.0.2.7"),
        (peer_of("/some/path"), None),
        ("owner", None),
        ("", None),
    ],
)
def test_as_who_a_peer_counts(peer: str, group: str | None) -> None:
    assert group_of(peer) == group


@pytest.mark.parametrize(
    ("header", "peer"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("10.9.9.9, 192.0.2.7", "192.0.2.7"),  # the first one the client may have written
        ("", None),
        ("192.0.2.7, unknown", None),
    ],
)
def test_who_is_behind_a_proxy(header: str, peer: str | None) -> None:
    assert forwarded_peer(header) == peer


def test_a_peer_has_its_share(tmp_path: Path) -> None:
    with serving(CountingEnv, max_sessions_per_peer=2) as url:
        address = parse_base_url(url)
        first, second = (Connection(address, {}, timeout_s=20) for _ in range(2))
        with pytest.raises(errors.CapacityError, match=r"127.0.0.1 has 2 of at most 2") as caught:
            Connection(address, {}, timeout_s=20, wait_s=30)
        assert caught.value.data["max_sessions_per_peer"] == 2
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{url}/state", timeout=20)
        refused.value.close()
        first.close()
        assert eventually(lambda: can_open(address))
        second.close()


def can_open(address: Any, **headers: str) -> bool:
    try:
        connection = Connection(address, {}, timeout_s=20)
    except errors.CapacityError:
        return False
    connection.close()
    return True


def test_a_share_is_given_back_whatever_happens(tmp_path: Path) -> None:
    def factory(fails: bool = False) -> CountingEnv:
        if fails:
            raise RuntimeError("no environment")
        return CountingEnv()

    with serving(factory, max_sessions_per_peer=1, capacity=1) as url:
        address = parse_base_url(url)
        for _ in range(3):
            with pytest.raises(errors.EnvironmentFailedError):
                Connection(address, {"fails": True}, timeout_s=20)
            with urllib.request.urlopen(f"{url}/state", timeout=20) as answer:
                assert answer.status == 200
            assert eventually(lambda: can_open(address))


def test_a_share_by_the_header_of_a_proxy() -> None:
    def ask(url: str, forwarded: str) -> int:
        request = urllib.request.Request(
            f"{url}/mcp",
            data=b'{"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}',
            headers={"X-Forwarded-For": forwarded},
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return b'"error"' not in answer.read()

    with serving(CountingEnv, max_sessions_per_peer=1, peer_header="X-Forwarded-For") as url:
        assert ask(url, "198.51.100.1")
        assert ask(url, "198.51.100.2")
        assert not ask(url, "198.51.100.99, 198.51.100.1")


# -- limits that everybody has ----------------------------------------------------------------------


def test_a_message_beyond_the_limit() -> None:
    with serving(CountingEnv, limits=Limits(max_frame_bytes=10_000)) as url:
        connection = Connection(parse_base_url(url), {}, timeout_s=20)
        with pytest.raises(errors.FrameTooLargeError):
            connection.call("step", ["x" * 20_000])
        connection.forget()


def test_a_queue_that_is_full() -> None:
    with serving(CountingEnv, capacity=1, max_waiting=0) as url:
        address = parse_base_url(url)
        connection = Connection(address, {}, timeout_s=20)
        with pytest.raises(errors.CapacityError, match="1 of at most 1 sessions"):
            Connection(address, {}, timeout_s=20, wait_s=600)
        connection.close()


@pytest.mark.parametrize("said", [b"", b"GET /ws HTTP/1.1\r\nHost: x\r\n"])
def test_a_handshake_that_takes_too_long(said: bytes) -> None:
    with serving(CountingEnv, limits=Limits(handshake_timeout_s=0.3)) as url:
        port = int(url.rpartition(":")[2])
        with (
            socket.create_connection(("127.0.0.1", port), 20) as sock,
            contextlib.suppress(ConnectionError),  # it may be over before anything is said
        ):
            sock.sendall(said)
            assert sock.recv(100) == b""


# -- what clients are told ----------------------------------------------------------------------------


class Failing(CountingEnv):
    def step(self, action: Any) -> Any:
        raise ValueError("what the environment says")


@pytest.mark.parametrize("debug", [False, True])
def test_tracebacks_stay_here_unless_asked_for(debug: bool) -> None:
    with serving(Failing, debug=debug) as url:
        connection = Connection(parse_base_url(url), {}, timeout_s=20)
        connection.call("reset", [None, None])
        with pytest.raises(errors.EnvironmentFailedError, match="what the environment") as caught:
            connection.call("step", [1])
        assert ("traceback" in caught.value.data) is debug
        connection.close()
        request = urllib.request.Request(f"{url}/step", data=b'{"action": {"action": 1}}')
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=20)
        with refused.value:
            assert b"Traceback" not in refused.value.read()
