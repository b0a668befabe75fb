"""`GET /schema` of servers that are none, are slow, or say too much."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from openenv_gym import errors
from openenv_gym.bridge import fetch_schemas, schemas
from openenv_gym.client import parse_base_url
from tests.bridge.worlds import SCHEMA
from tests.support.fake_openenv import FakeOpenEnv
from tests.support.ports import reserved_port


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@contextlib.contextmanager
def answering(*parts: bytes, hang: bool = False, drip: bool = False) -> Iterator[str]:
    """Answer one connection with these bytes, and maybe with one more now and then for ever."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError), listener.accept()[0] as sock:
                sock.recv(65536)
                for part in parts:
                    sock.sendall(part)
                while drip:
                    sock.sendall(b"x")
                    time.sleep(0.05)
                if hang:
                    sock.settimeout(60)
                    sock.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(60)


def fetch(url: str, **options: float) -> schemas.Schemas:
    return fetch_schemas(parse_base_url(url), **options)


def test_what_a_server_says() -> None:
    with FakeOpenEnv(schema=SCHEMA, token="t") as server:
        found = fetch_schemas(
            parse_base_url(server.url), headers={"Authorization": "Bearer t"}, timeout_s=20
        )
        assert found.action == SCHEMA["action"]
        assert found.reset_observation is None
        with pytest.raises(errors.UnauthorizedError):
            fetch(server.url)


def test_a_unix_socket(tmp_path: object) -> None:
    with FakeOpenEnv(schema=SCHEMA, path=f"{tmp_path}/s") as server:
        assert fetch(server.url).observation == SCHEMA["observation"]


def test_chunks() -> None:
    body = json.dumps(SCHEMA).encode()
    chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    with answering(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", chunk, hang=True) as url:
        assert fetch(url).action == SCHEMA["action"]


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 307 Elsewhere\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n",
        HEAD + b"\r\n{",
        HEAD + b"\r\n[]",
        HEAD + b"\r\n\xff\xfe",
        HEAD + b'\r\n{"action": 3, "observation": {}}',
        HEAD + b"\r\n" + b'{"action":' * 20000,
        HEAD + b"Content-Length: 999\r\n\r\n{}",
        HEAD + b"Content-Length: many\r\n\r\n",
        HEAD + b"X: 1\r\n" * 1000 + b"\r\n{}",
    ],
)
def test_what_is_no_openenv_server(answer: bytes) -> None:
    with answering(answer) as url, pytest.raises(errors.NotAnOpenEnvServerError):
        fetch(url, timeout_s=20)


def test_a_server_that_drips_gains_nothing() -> None:
    with (
        answering(HEAD, drip=True) as url,
        pytest.raises(errors.ServerUnreachableError, match=r"0\.3 s"),
    ):
        fetch(url, timeout_s=0.3)


def test_a_server_that_says_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "_MAX_BYTES", 1000)
    with (
        answering(HEAD + b"\r\n" + b" " * 5000, hang=True) as url,
        pytest.raises(errors.NotAnOpenEnvServerError, match="more than 1000 bytes"),
    ):
        fetch(url, timeout_s=20)


def test_nobody_there() -> None:
    with reserved_port() as port, pytest.raises(errors.ServerUnreachableError):
        fetch(f"http://127.0.0.1:{port}")
