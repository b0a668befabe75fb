"""The way out to named hosts: only to them, and not into networks that are not public."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openenv_gym.providers import Network
from openenv_gym.providers.egress import EgressProxy, proxy
from openenv_gym.providers.egress.proxy import Refusal, allowed_addresses
from openenv_gym.server import egress
from tests.support.waiting import eventually


@pytest.fixture
def upstream() -> Iterator[int]:
    """Return the port of a service that answers in capitals."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = listener.accept()
                with sock:
                    while data := sock.recv(100):
                        sock.sendall(data.upper())

    thread = threading.Thread(target=serve)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


_PARTS = 8


@pytest.fixture
def dribble() -> Iterator[int]:
    """Return the port of a service that says a byte now and then, for four seconds."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        sock, _ = listener.accept()
        with sock, contextlib.suppress(OSError):
            for number in range(_PARTS):
                time.sleep(0.5)
                sock.sendall(bytes([number]))

    thread = threading.Thread(target=serve)
    thread.start()
    yield listener.getsockname()[1]
    thread.join()
    listener.close()


@pytest.fixture
def socket_path() -> Iterator[str]:
    import tempfile

    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        yield f"{directory}/p"


def _ask(sock: socket.socket, text: str) -> bytes:
    sock.settimeout(60)
    sock.sendall(text.encode())
    return sock.recv(1000)


def _connect(path: str, text: str) -> tuple[socket.socket, bytes]:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
    return sock, _ask(sock, text)


def _request(host: str) -> str:
    return f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n"


def test_only_to_what_is_listed(upstream: int, socket_path: str) -> None:
    listed = f"127.0.0.1:{upstream}"
    way_out = EgressProxy(Network.egress(listed, f"localhost:{upstream}"), socket_path)
    try:
        sock, answer = _connect(socket_path, _request(listed))
        with sock:
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert _ask(sock, "hello") == b"HELLO"
        for request, status, text in [
            (_request("127.0.0.1:1"), b"403", b"not among the hosts"),
            (_request(f"127.0.0.2:{upstream}"), b"403", b"not among the hosts"),
            (_request(f"localhost:{upstream}"), b"403", b"no public address"),
            ("GET http://a/ HTTP/1.1\r\n\r\n", b"405", b"CONNECT"),
            ("CONNECT a HTTP/1.1\r\n\r\n", b"405", b"CONNECT"),
            (_request("a:1").replace("Host", "H" * 9000), b"431", b"too long"),
        ]:
            sock, answer = _connect(socket_path, request)
            with sock:
                assert answer.split()[1] == status, (request, answer)
                assert text in answer
    finally:
        way_out.close()
    assert not Path(socket_path).exists()
    way_out.close()


@pytest.fixture
def impatient(socket_path: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Start a proxy in this process that does not bear silence for long."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    servers: list[asyncio.AbstractServer] = []

    def start(listed: str, idle_s: float) -> None:
        monkeypatch.setattr(proxy, "_IDLE_S", idle_s)
        serve = proxy._Proxy(frozenset([listed])).serve
        servers.append(loop.run_until_complete(asyncio.start_unix_server(serve, socket_path)))
        thread.start()

    async def end() -> None:
        servers[0].close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait_for(asyncio.gather(*others), 20)
        await asyncio.sleep(0)  # for what closes with the next turn

    yield start
    asyncio.run_coroutine_threadsafe(end(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_who_downloads_need_say_nothing(
    socket_path: str, impatient: Callable[..., None], dribble: int
) -> None:
    listed = f"127.0.0.1:{dribble}"
    impatient(listed, idle_s=3.0)
    sock, answer = _connect(socket_path, _request(listed))
    with sock:
        assert answer.startswith(b"HTTP/1.1 200 ")
        received = answer.partition(b"\r\n\r\n")[2]
        while data := sock.recv(1000):
            received += data
    assert received == bytes(range(_PARTS))


def test_a_connection_on_which_nothing_moves_is_ended(
    socket_path: str, impatient: Callable[..., None], upstream: int
) -> None:
    listed = f"127.0.0.1:{upstream}"
    impatient(listed, idle_s=0.3)
    sock, answer = _connect(socket_path, _request(listed))
    with sock:
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert sock.recv(1000) == b""


def test_through_the_relay(
    upstream: int, socket_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"):
        for each in (name, name.lower()):
            monkeypatch.setenv(each, "")
    listed = f"127.0.0.1:{upstream}"
    way_out = EgressProxy(Network.egress(listed), socket_path)
    egress.start_relay(socket_path)
    relay = egress._relays.pop()
    try:
        port = int(os.environ["HTTPS_PROXY"].rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as sock:
            assert _ask(sock, _request(listed)).startswith(b"HTTP/1.1 200 ")
            assert _ask(sock, "hello") == b"HELLO"
        with socket.create_connection(("127.0.0.1", port)) as sock:
            assert b"403" in _ask(sock, _request("127.0.0.1:1"))
    finally:
        assert relay.stdin is not None
        relay.stdin.close()
        assert relay.wait(60) == 0
        way_out.close()


def test_it_ends_with_its_owner(socket_path: str) -> None:
    way_out = EgressProxy(Network.egress("a:1"), socket_path)
    pid = way_out._process.pid
    assert Path(f"/proc/{pid}").exists()
    way_out.close()
    assert eventually(lambda: not Path(f"/proc/{pid}").exists())


def _resolve(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        return [(0, 0, 0, "", (address, port)) for address in addresses]

    monkeypatch.setattr(proxy.socket, "getaddrinfo", getaddrinfo)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.1", "192.168.1.1", "172.17.0.1", "169.254.169.254", "100.64.0.1"]  # noqa: RUF005
    + ["0.0.0.0", "::1", "::", "fe80::1%2", "fd00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1"]
    + ["2002:a00:1::", "2001:0:53aa:64c::1", "224.0.0.1", "ff02::1", "240.0.0.1"]
    + ["64:ff9b:1::a00:1", "::ffff:0:a00:1", "::a00:1", "fec0::2", "5f00::1", "ff0e::1"],
)
def test_a_name_that_leads_inside(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _resolve(monkeypatch, address)
    with pytest.raises(Refusal, match="no public address"):
        allowed_addresses("a.example", 443, frozenset({"a.example:443"}))


def test_of_several_addresses_only_public_ones_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    _resolve(monkeypatch, "10.0.0.1", "1.1.1.1", "1.1.1.1", "2606:4700::1111")
    found = allowed_addresses("a.example", 443, frozenset({"a.example:443"}))
    assert found == ["1.1.1.1", "2606:4700::1111"]


def test_a_name_that_is_reached_through_a_translator(monkeypatch: pytest.MonkeyPatch) -> None:
    _resolve(monkeypatch, "64:ff9b::808:808")
    found = allowed_addresses("a.example", 443, frozenset({"a.example:443"}))
    assert found == ["64:ff9b::808:808"]


def test_an_address_that_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = frozenset(Network.egress("10.0.0.1:80", "[fd00::1]:80").hosts)
    assert allowed_addresses("10.0.0.1", 80, hosts) == ["10.0.0.1"]
    assert allowed_addresses("fd00:0::1", 80, hosts) == ["fd00::1"]
    with pytest.raises(Refusal, match="not among"):
        allowed_addresses("10.0.0.1", 81, hosts)
