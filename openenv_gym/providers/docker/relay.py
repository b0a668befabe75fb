"""Reaching a server through ``docker exec``, where sockets of this machine do not reach it.

A daemon on another machine, or in the virtual machine of Docker Desktop, cannot mount a directory
in which we listen. There a small program in the container joins its standard streams, which the
daemon passes on, to the server's socket. The container has no network here either.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from typing import Any

from openenv_gym import errors
from openenv_gym.client import Loss, not_lost


__all__ = ["SOCKET_PATH", "ExecAddress", "close_stream"]

SOCKET_PATH = "/tmp/openenv.sock"
"""Where the server listens, inside the container, if nothing else is said."""

_CHUNK_BYTES = 1 << 16
_ASK_AGAIN = 10
_STDOUT = 1

# Runs in the container with `python -I -S -c`, hence the standard library alone, and one that
# starts in milliseconds.
_HELLO = b"openenv-relay\n"  # what else comes first is the daemon's, about why it runs nothing
_PROGRAM = """
import os, select, socket, sys, time
path, end = sys.argv[1], time.monotonic() + float(sys.argv[2])
while True:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(path)
        break
    except OSError as error:
        sock.close()
        if time.monotonic() > end:
            sys.exit(f"nothing listens at {path}: {error}")
        time.sleep(0.01)
os.write(1, b"{hello}")
poll = select.poll()
poll.register(0, select.POLLIN)
poll.register(sock, select.POLLIN)
while True:
    for fd, _ in poll.poll():
        if fd == 0:
            data = os.read(0, 65536)
            if not data:
                poll.unregister(0)
                sock.shutdown(socket.SHUT_WR)
            sock.sendall(data)
            continue
        data = sock.recv(65536)
        if not data:
            sys.exit(0)
        while data:
            data = data[os.write(1, data):]
""".replace("{hello}", _HELLO.decode().replace("\n", "\\n"))


class ExecAddress:
    """A server in a container, reached by a program that is run beside it.

    Args:
        client: Client of the daemon.
        container_id: Id of the container.
        name: What errors call the server.
        path: Where it listens, inside the container.
    """

    uri = "ws://localhost/ws"

    def __init__(self, client: Any, container_id: str, name: str, path: str = SOCKET_PATH) -> None:
        self._path = path
        self._api = client.api
        self._container_id = container_id
        self._name = name

    def dial(self, timeout_s: float, why_lost: Loss = not_lost) -> socket.socket:
        """Run a relay and return one end of a socket pair whose other end it serves."""
        command = ["python", "-I", "-S", "-c", _PROGRAM, self._path, f"{timeout_s:.3f}"]
        try:
            created = self._api.exec_create(
                self._container_id, command, stdin=True, stdout=True, stderr=True
            )
            stream = self._api.exec_start(created["Id"], socket=True)
        except Exception as error:
            if (lost := why_lost()) is not None:
                raise lost from error
            raise errors.ServerUnreachableError(
                f"Docker cannot run a relay in the container of {self._name}: {error}"
            ) from error
        ours, near = socket.socketpair()
        end_s = time.monotonic() + timeout_s
        raw = getattr(stream, "_sock", stream)
        raw.settimeout(None)
        for pump in (_pump_up, _pump_down):
            # `stream` goes along, because its end would close the socket below it.
            threading.Thread(
                target=pump, args=(near, raw, stream), name="openenv-relay", daemon=True
            ).start()
        self._await_hello(ours, end_s, why_lost)
        return ours

    def _await_hello(self, ours: socket.socket, end_s: float, why_lost: Loss) -> None:
        """Wait until the relay has reached the server."""
        said = b""
        try:
            while len(said) < len(_HELLO):
                ours.settimeout(max(end_s - time.monotonic(), 0.001))
                if not (data := ours.recv(len(_HELLO) - len(said))):
                    break
                said += data
        except TimeoutError:
            pass
        if said == _HELLO:
            return
        ours.settimeout(1.0)
        with ours, contextlib.suppress(OSError):
            said += ours.recv(4096)
        # The daemon needs a moment to notice that a container has ended.
        for _ in range(_ASK_AGAIN):
            if (lost := why_lost()) is not None:
                raise lost
            time.sleep(0.1)
        text = said.decode(errors="replace").strip() or "it ended, or took too long."
        raise errors.ServerUnreachableError(f"The relay of {self._name} does not run: {text}")

    def __str__(self) -> str:
        return self._name


def _pump_up(near: socket.socket, raw: socket.socket, stream: Any) -> None:
    """Pass on what we send, and that we hang up."""
    with contextlib.suppress(OSError):
        while data := near.recv(_CHUNK_BYTES):
            raw.sendall(data)
    with contextlib.suppress(OSError):
        raw.shutdown(socket.SHUT_WR)


def _pump_down(near: socket.socket, raw: socket.socket, stream: Any) -> None:
    """Pass on what comes, out of the frames in which the daemon wraps it.

    A frame is a byte that tells the stream, three zeros, the size as 4 bytes in network order, and
    the data (Docker Engine API, "Attach to a container", stream format).
    """
    with contextlib.suppress(OSError):
        while (head := _read_exactly(raw, 8)) is not None:
            kind, size = struct.unpack(">BxxxL", head)
            while size:
                data = raw.recv(min(size, _CHUNK_BYTES))
                if not data:
                    break
                size -= len(data)
                if kind == _STDOUT:
                    near.sendall(data)
    close_stream(stream)
    with contextlib.suppress(OSError):
        near.shutdown(socket.SHUT_RDWR)
    near.close()


def close_stream(stream: Any) -> None:
    """Close what docker-py gave out of an answer's connection, with the answer itself.

    In this order: an answer that is collected after its file was closed complains.
    """
    for each in (getattr(stream, "_response", None), stream, getattr(stream, "_sock", None)):
        if each is not None:
            with contextlib.suppress(OSError, ValueError):
                each.close()


def _read_exactly(raw: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        more = raw.recv(size - len(data))
        if not more:
            return None
        data += more
    return data
