"""The door to the web page: whoever asks for it is handed over to a program of its own.

The page is no part of the server. Its program (`openenv_gym.web`) is started beside it, gets each
connection that begins with a request for the page (docs/design.md), and opens sessions as every
client does, over connections that it sends back. So the server needs no web framework, and what
the page does takes nothing from the process in which the environments run.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import logging
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from openenv_gym import errors
from openenv_gym.server.doors import Doors
from openenv_gym.server.process import bootstrap
from openenv_gym.server.web_paths import WEB_PATH, WEB_VARIABLE
from openenv_gym.server.workers.channel import Kind, join_connection, send


__all__ = ["WebDoor"]

_MODULE = "openenv_gym.web.__main__"
_NEEDED = ("gradio", "uvicorn")
_AGAIN_S = 5.0  # so long after a start that failed there is no other one
_STOP_S = 2.0

_log = logging.getLogger("openenv_gym.server")

_Ends = tuple[socket.socket, socket.socket]
"""What the program gets: where connections come in, and where it sends its own."""


class WebDoor:
    """The page's program, and the ways to it and back.

    Args:
        doors: Watch the way back.
        token: Credential that the page shows to this server.
        facts: What the page says about the server: ``name``, ``description`` and so on; asked for
            when the page is started.
        tls: Browsers come by TLS.

    Raises:
        ConfigurationError: The page's packages are not installed.
    """

    def __init__(
        self,
        doors: Doors,
        token: str | None,
        facts: Callable[[], dict[str, Any]],
        *,
        tls: bool,
    ) -> None:
        missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            raise errors.ConfigurationError(
                f"The page at {WEB_PATH} needs {' and '.join(missing)}, which is not installed.",
                field="web",
                hint=f"pip install 'openenv-gym[web]', or leave --web and {WEB_VARIABLE} away.",
            )
        self._doors = doors
        self._token = token
        self._facts = facts
        self._tls = tls
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._failed = False
        self._started_s = -_AGAIN_S
        self._stopped = False
        # A program ends with the thread that started it, and those of a pool come and go.
        self._orders: queue.SimpleQueue[_Ends | None] = queue.SimpleQueue()
        self._starter = threading.Thread(target=self._launch_all, name="openenv-web", daemon=True)

    def start(self) -> None:
        """Start the page's program; it ends with this process."""
        with self._lock:
            if self._channel is None:  # somebody may have asked for the page already
                self._start()

    def take(self, fd: int, peer: str, said: bytes) -> bool:
        """Hand a connection over.

        Args:
            fd: Its descriptor, which stays the caller's to close.
            peer: Where it comes from.
            said: What it has said.

        Returns:
            Whether it was taken; where it was not, there is no page at the moment.
        """
        with self._lock:
            if self._stopped:
                return False
            if self._channel is None or self._is_over():
                if time.monotonic() < self._started_s + _AGAIN_S:
                    return False
                self._end()
                self._start()
            assert self._channel is not None
            return send(self._channel, Kind.REQUEST, join_connection(peer, 0.0, said), [fd])

    def stop(self) -> None:
        """End the page's program."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            if self._starter.ident is not None:
                self._orders.put(None)
                self._starter.join()
            self._end()

    def descriptors(self) -> set[int]:
        """Return what a forked child must not keep open."""
        channel = self._channel
        return set() if channel is None else {channel.fileno()}

    def _is_over(self) -> bool:
        process = self._process
        return self._failed or (process is not None and process.poll() is not None)

    def _start(self) -> None:
        """Have the program started; what is sent to it from now on waits for it."""
        self._started_s = time.monotonic()
        self._failed = False
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        back, forth = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._channel = ours
        self._doors.open_channel(back, self._note_end)
        if self._starter.ident is None:
            self._starter.start()
        self._orders.put((theirs, forth))

    def _launch_all(self) -> None:
        while (ends := self._orders.get()) is not None:
            try:
                self._process = self._launch(ends)
            except Exception:
                self._failed = True
                _log.exception("The page at %s cannot be started", WEB_PATH)

    def _launch(self, ends: _Ends) -> subprocess.Popen[bytes]:
        """Start the program with its ends of the channels.

        Raises:
            OSError: The system refuses.
            OpenEnvGymError: Nobody knows what is served.
        """
        with ends[0], ends[1]:
            told = {
                "parent": os.getpid(),
                "token": self._token,
                "tls": self._tls,
                "facts": self._facts(),
            }
            # Above 2, where it has its standard streams.
            given = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 3) for each in ends]
            try:
                process = subprocess.Popen(
                    [sys.executable, "-c", bootstrap(_MODULE), *map(str, given)],
                    pass_fds=given,
                    stdin=subprocess.PIPE,
                    start_new_session=True,  # Ctrl-C in the terminal is ours
                )
            finally:
                for fd in given:
                    os.close(fd)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(json.dumps(told, default=str).encode())
        return process

    def _note_end(self) -> None:
        if not self._stopped:
            _log.warning("The program of the page at %s has ended.", WEB_PATH)

    def _end(self) -> None:
        process, self._process = self._process, None
        channel, self._channel = self._channel, None
        if process is not None:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if channel is not None:
            channel.close()
