"""HTTP clients that mean harm, or might as well."""

from __future__ import annotations

import contextlib
import json
import socket
import time

import pytest

from openenv_gym.protocol.limits import Limits
from tests.server.openenv.conftest import Serve, Site
from tests.support.waiting import eventually


def request(method: str, path: str, *headers: str, body: bytes = b"") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode() + body


def connected(site: Site) -> socket.socket:
    return site.stack.enter_context(socket.create_connection((site.host, site.port), 60))


def read_all(sock: socket.socket) -> bytes:
    received = b""
    while part := sock.recv(65536):
        received += part
    return received


def test_a_body_beyond_the_limit_is_refused_and_the_client_sees_it(serve: Serve) -> None:
    site = serve(limits=Limits(max_frame_bytes=1 << 20))
    size = 200 << 20
    sock = connected(site)
    sock.sendall(request("POST", "/reset", f"Content-Length: {size}"))
    with contextlib.suppress(OSError):
        for _ in range(200):
            sock.sendall(bytes(1 << 20))
    answer = read_all(sock)
    assert answer.startswith(b"HTTP/1.1 413 ") and str(size).encode() in answer


def test_a_large_body_is_taken(serve: Serve) -> None:
    action = {"by": 1, "note": "x" * (17 << 20)}
    assert serve().ask("POST", "/step", {"action": action}).status == 200


@pytest.mark.parametrize("sent", [b"", b'{"seed":'])
def test_a_body_that_does_not_come_is_not_waited_for(serve: Serve, sent: bytes) -> None:
    site = serve(limits=Limits(handshake_timeout_s=60), max_threads=2)
    slow = [connected(site) for _ in range(20)]
    for sock in slow:
        sock.sendall(request("POST", "/reset", "Content-Length: 10", body=sent))
    assert site.ask("POST", "/reset").status == 200  # the others are not in its way
    server = site.server
    assert server is not None and eventually(lambda: len(server._connections) == 20)
    server._keep_house(time.monotonic() + 100)  # when the limit is over
    for sock in slow:
        with contextlib.suppress(ConnectionError):
            assert sock.recv(1) == b""


def test_a_body_that_comes_byte_by_byte(serve: Serve) -> None:
    sock = connected(serve())
    for byte in request("POST", "/reset", "Content-Length: 10", body=b'{"seed":7}'):
        sock.sendall(bytes([byte]))
    assert json.loads(read_all(sock).partition(b"\r\n\r\n")[2])["observation"]["at"] == 7


def test_who_asks_before_a_body_is_told_to_send_it(serve: Serve) -> None:
    site = serve()
    sock = connected(site)
    sock.sendall(request("POST", "/reset", "Content-Length: 10", "Expect: 100-continue"))
    assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    sock.sendall(b'{"seed":7}')
    assert read_all(sock).startswith(b"HTTP/1.1 200 ")
    # Who is refused is not asked for a body.
    refused = site.raw(request("POST", "/none", "Content-Length: 10", "Expect: 100-continue"))
    assert refused.startswith(b"HTTP/1.1 404 ")


def test_the_second_of_two_requests_is_not_answered_and_takes_nothing_away(serve: Serve) -> None:
    one = request("POST", "/reset", "Content-Length: 2", body=b"{}")
    answer = serve().raw(one * 1000)
    assert answer.count(b"HTTP/1.1 ") == 1 and answer.startswith(b"HTTP/1.1 200 ")
    assert b"Connection: close" in answer
    body = answer.partition(b"\r\n\r\n")[2]
    assert json.loads(body)["done"] is False


def test_who_asks_for_the_head_of_an_answer_gets_that(serve: Serve) -> None:
    site = serve()
    for path, status in [("/health", 200), ("/schema", 200), ("/none", 404), ("/reset", 405)]:
        answer = site.raw(request("HEAD", path))
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())
        assert answer.endswith(b"\r\n\r\n") and b"Content-Length: 0" not in answer


def test_methods_that_a_path_does_not_take(serve: Serve) -> None:
    site = serve()
    for method in ("OPTIONS", "GET", "DELETE", "PATCH"):
        answer = site.ask(method, "/reset")
        assert answer.status == 405 and answer.headers["Allow"] == "POST"


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 100 + b"\r\n\r\n",
        b"POST /reset HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST /reset HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /reset HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"A" * 40_000,
    ],
)
def test_what_is_no_request_is_refused(serve: Serve, data: bytes) -> None:
    answer = serve().raw(data)
    assert answer.startswith(b"HTTP/1.1 4")


def test_who_leaves_early_takes_nobody_along(serve: Serve) -> None:
    site = serve(capacity=1)
    for _ in range(20):
        with socket.create_connection((site.host, site.port), 60) as sock:
            sock.sendall(request("POST", "/reset", "Content-Length: 2", body=b"{}"))
    end_s = time.monotonic() + 20
    while site.ask("POST", "/reset").status != 200:
        assert time.monotonic() < end_s
        time.sleep(0.05)


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "//[", "[", "null", ""])
def test_an_origin_that_is_none_is_refused(serve: Serve, origin: str) -> None:
    answer = serve().raw(request("GET", "/health", f"Origin: {origin}"))
    assert answer.startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("limit", ["1e10", "1e300", "1e999", "9" * 300])
def test_a_step_may_take_longer_than_python_can_wait(serve: Serve, limit: str) -> None:
    site = serve(capacity=1)
    body = b'{"action": {"by": 1}, "timeout_s": %s}' % limit.encode()
    assert site.ask("POST", "/step", body).status == 200
    assert site.ask("POST", "/step", body).status == 200  # the place is free again
