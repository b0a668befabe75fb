"""A server in a process of its own on this machine. Faults stay there; nothing else is isolated."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading

from openenv_gym import errors
from openenv_gym.client import Address, ChannelAddress
from openenv_gym.providers.base import RunningServer, ServerTarget
from openenv_gym.providers.guardian import guardian


__all__ = ["ProcessProvider"]

_STOP_S = 5.0
_LOG_TAIL_BYTES = 4096


class ProcessServer:
    """A server process that inherited one end of a channel.

    The channel is its only address and its lifeline: when our end closes, also because this
    process was killed, it stops.
    """

    def __init__(self, target: ServerTarget) -> None:
        self._owner_pid = os.getpid()
        self._lock = threading.Lock()
        # It has no name, so nothing stays behind; it is open for as long as the server runs.
        self._log = tempfile.TemporaryFile("a+b")  # noqa: SIM115
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "openenv_gym.server", target.package]
        if target.thread_affinity:
            command.append("--thread-affinity")
        try:
            with contextlib.closing(theirs):
                self._process = subprocess.Popen(
                    [*command, "--channel-fd", str(theirs.fileno()), "--trim-log"],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=self._log,
                    stderr=self._log,
                    env=_environment(),
                    start_new_session=True,  # Ctrl-C in the terminal is the trainer's
                )
        except OSError as error:
            self._channel.close()
            self._log.close()
            raise errors.ServerStartError(
                f"Cannot start a server process: {error}.", data={"command": command}
            ) from error
        self._name = f"process:{target.package}[{self._process.pid}]"
        self.address: Address = ChannelAddress(self._channel, self._name)
        guardian.watch(f"process:{self._process.pid}")
        _alive.add(self)

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._process.pid

    def why_lost(self) -> str | None:
        """Say why the server is gone; None while it runs."""
        try:
            code = self._process.wait(0.2)
        except subprocess.TimeoutExpired:
            return None
        how = (
            f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        )
        text = f"The server {self._name} {how}."
        tail = self.log_tail()
        return f"{text}\nLast lines of the server:\n{tail}" if tail else text

    def log_tail(self) -> str:
        """Return the last lines that it wrote."""
        if self._log.closed:
            return ""
        size = os.fstat(self._log.fileno()).st_size
        tail = os.pread(self._log.fileno(), _LOG_TAIL_BYTES, max(size - _LOG_TAIL_BYTES, 0))
        return tail.decode(errors="replace").strip()

    def stop(self) -> None:
        """Close the channel, wait for the process, kill it where it does not end."""
        if os.getpid() != self._owner_pid:
            return
        with self._lock:
            self._channel.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
            # What the environment started is in the same group, and may have outlived it.
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            guardian.forget(f"process:{self._process.pid}")
            self._log.close()
            _alive.discard(self)

    def after_fork(self) -> None:
        """In a forked child: do not keep the parent's server alive."""
        self._channel.close()
        self._log.close()
        self._process.returncode = 0  # not our child: nothing to wait for


class ProcessProvider:
    """Starts each server as a process of its own."""

    name = "process"

    def start(self, target: ServerTarget) -> RunningServer:
        """Start a server; see `Provider`."""
        return ProcessServer(target)


_alive: set[ProcessServer] = set()


def _after_fork() -> None:
    for server in list(_alive):
        server.after_fork()
    _alive.clear()


os.register_at_fork(after_in_child=_after_fork)


def _environment() -> dict[str, str]:
    """Let the server import what this process can import."""
    path = [entry for entry in sys.path if entry]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONUNBUFFERED": "1"}
