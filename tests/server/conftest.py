"""Fixtures: a server on a Unix socket, and a client that speaks the protocol by hand."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openenv_gym.client import UnixAddress
from openenv_gym.client.transport import Transport, encode_message
from openenv_gym.server import Server, create_app
from tests.support.blocking import blocking
from tests.support.waiting import eventually
from tests.support.worlds import CountingEnv


__all__ = ["RawClient", "Site", "blocking"]


class RawClient:
    """Sends and receives messages as they are."""

    def __init__(self, path: str) -> None:
        self.transport = Transport(
            UnixAddress(path), headers={}, timeout_s=60, max_frame_bytes=64 << 20
        )

    def send(self, *message: Any) -> None:
        self.transport.send(encode_message(list(message)))

    def receive(self, timeout_s: float = 60.0) -> list[Any]:
        return self.transport.receive_message(timeout_s)

    def open(self, wait_s: float = 0.0, **options: Any) -> Any:
        self.send(0, {"version": [1, 0], "open": {"options": options, "wait_s": wait_s}})
        return self.receive()

    def close(self) -> None:
        self.transport.close(polite=False)


class Site:
    """A server and the clients that a test makes."""

    def __init__(self, path: Path) -> None:
        self.path = str(path / "s")
        self._servers: list[Server] = []
        self._clients: list[RawClient] = []

    def start(self, factory: Callable[..., Any] = CountingEnv, **kwargs: Any) -> Server:
        affinity = kwargs.pop("thread_affinity", False)
        server = Server(create_app(factory, thread_affinity=affinity), **kwargs)
        server.listen_unix(self.path)
        server.start()
        self._servers.append(server)
        return server

    def client(self) -> RawClient:
        client = RawClient(self.path)
        self._clients.append(client)
        return client

    def raw(self, data: bytes) -> bytes:
        """Send bytes and return all that comes back until the server closes."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(60)
            sock.connect(self.path)
            sock.sendall(data)
            received = b""
            while part := sock.recv(65536):
                received += part
            return received

    def close(self) -> None:
        for client in self._clients:
            client.close()
        for server in self._servers:
            server.stop()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


class Command:
    """A server that was started by command."""

    def __init__(self, path: Path, *arguments: str, **environ: str) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("OPENENV_")}
        self._log = (path / "log").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "openenv_gym.server", "gymnasium", "--port", "0", *arguments],
            env={**kept, **environ},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )

    def log(self) -> str:
        return Path(self._log.name).read_text()

    def url(self) -> str:
        def serves() -> bool:
            assert self.process.poll() is None, self.log()
            return "Serving" in self.log()

        assert eventually(serves, 60), self.log()
        return self.log().partition(" on ")[2].split()[0].replace("0.0.0.0", "127.0.0.1")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(60)
        self._log.close()


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Any]:
    made: list[Command] = []

    def start(*arguments: str, **environ: str) -> Command:
        made.append(Command(tmp_path, *arguments, **environ))
        return made[-1]

    yield start
    for each in made:
        each.close()
