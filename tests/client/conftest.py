"""Servers that do what a script says, and networks that break."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openenv_gym.client import UnixAddress
from openenv_gym.providers.thread import ThreadServer
from openenv_gym.server import Server, create_app
from tests.client.scripted import Script
from tests.support.blocking import blocking
from tests.support.cutting import CuttingAddress
from tests.support.worlds import BlockingEnv


__all__ = ["blocking"]


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Callable[[Script], UnixAddress]]:
    """Return a function that starts a server which does with each connection what a script says."""
    listener = socket.socket(socket.AF_UNIX)
    path = str(tmp_path / "fake")
    listener.bind(path)
    listener.listen(8)
    threads: list[threading.Thread] = []

    def start(script: Script) -> UnixAddress:
        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    sock, _ = listener.accept()
                    with sock, contextlib.suppress(OSError):
                        sock.settimeout(60)
                        script(sock)

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return UnixAddress(path)

    yield start
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    for thread in threads:
        thread.join(10)


@pytest.fixture
def slow_server(blocking: type[BlockingEnv]) -> Iterator[ThreadServer]:
    """A server whose steps end when `blocking` lets them."""
    running = ThreadServer(Server(create_app(blocking)))
    yield running
    blocking.gate.set()
    running.stop()


@pytest.fixture
def network(server: ThreadServer) -> Iterator[CuttingAddress]:
    """The way to the `server` of a module, which can be cut."""
    address = CuttingAddress(server.address)
    yield address
    address.close()
