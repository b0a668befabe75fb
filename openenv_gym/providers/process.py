"""A server in a process of its own on this machine. Faults stay there; nothing else is isolated."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from typing import Any, ClassVar

from openenv_gym import errors
from openenv_gym.client import Address, ChannelAddress
from openenv_gym.providers import local
from openenv_gym.providers.base import (
    GRACE_S,
    NEW_ONE,
    RunningServer,
    ServerTarget,
    check_workers,
    refuse_isolation,
    tail_of,
)
from openenv_gym.providers.guardian import KIND, MARKER, OWNER, guardian, kill_marked
from openenv_gym.providers.inventory import Item
from openenv_gym.providers.owner import Owner
from openenv_gym.providers.sandbox import Sandbox
from openenv_gym.server.process import bootstrap, signal_name


__all__ = ["ProcessProvider"]

_LOG_TAIL_BYTES = 4096
_MAIN = "openenv_gym.server.__main__"


class ProcessServer:
    """A server process that inherited one end of a channel.

    The channel is its only address and its lifeline: when our end closes, also because this
    process was killed, it stops.

    Args:
        target: What is to be served.
        workers: Its worker processes.
        sandbox: Its environment and limit of files; the rest of it was refused before.
        python: Interpreter that has what it needs; by default this one, with what this process
            can import.
        kind: What ``provider=`` calls whoever started it.

    Raises:
        ServerStartError: The system refuses.
    """

    token: str | None = None

    def __init__(
        self,
        target: ServerTarget,
        *,
        workers: int = 1,
        sandbox: Sandbox | None = None,
        python: str | None = None,
        kind: str = "process",
    ) -> None:
        sandbox = sandbox or Sandbox()
        self._owner_pid = os.getpid()
        # Reentrant: the garbage collector may run a finalizer, which stops, in any line of ours.
        self._lock = threading.RLock()
        self._stopping = False
        self._marker = uuid.uuid4().hex
        code = _limit_files(sandbox.resources.files) + bootstrap(_MAIN, inherit=python is None)
        command = [python or sys.executable, "-c", code, target.package]
        if target.thread_affinity:
            command.append("--thread-affinity")
        if workers > 1:
            command += ["--workers", str(workers)]
        try:
            with contextlib.ExitStack() as undo:
                # It has no name, so nothing stays behind; it is open while the server runs.
                self._log = undo.enter_context(tempfile.TemporaryFile("a+b"))
                self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                undo.enter_context(self._channel)
                with theirs:  # above 2, for there the server has its standard streams
                    channel_fd = fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, 3)
                try:
                    self._process = subprocess.Popen(
                        [*command, "--channel-fd", str(channel_fd), "--trim-log"],
                        pass_fds=[channel_fd],
                        stdin=subprocess.DEVNULL,
                        stdout=self._log,
                        stderr=self._log,
                        env={
                            **_inherited(own_python=python is None),
                            "PYTHONUNBUFFERED": "1",
                            **sandbox.environment,
                            MARKER: self._marker,
                            OWNER: str(Owner.current()),
                            KIND: kind,
                        },
                        start_new_session=True,  # Ctrl-C in the terminal is the trainer's
                    )
                finally:
                    os.close(channel_fd)
                self._watched = f"process:{self._process.pid}:{self._marker}"
                undo.callback(self.stop)
                guardian.watch(self._watched)
                undo.pop_all()
        except OSError as error:
            raise errors.ServerStartError(
                f"Cannot start a server process: {error}.", data={"command": command}
            ) from error
        self._name = f"{kind}:{target.package}[{self._process.pid}]"
        self.address: Address = ChannelAddress(self._channel, self._name)
        _alive.add(self)

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._process.pid

    def why_lost(self) -> errors.ConnectionLostError | None:
        """Tell why the server is gone, with its last lines; None while it runs."""
        try:
            code = self._process.wait(0.2)
        except subprocess.TimeoutExpired:
            return None
        how = f"was killed by {signal_name(-code)}" if code < 0 else f"ended with code {code}"
        return errors.ServerDiedError(
            f"The server {self._name} {how}.", hint=NEW_ONE, data={"log": self.log_tail()}
        )

    def log_tail(self) -> str:
        """Return the last lines that it wrote."""
        if self._log.closed:
            return ""
        size = os.fstat(self._log.fileno()).st_size
        tail = os.pread(self._log.fileno(), _LOG_TAIL_BYTES, max(size - _LOG_TAIL_BYTES, 0))
        return tail_of(tail)

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Close the channel, wait for the process, kill it where it does not end."""
        if os.getpid() != self._owner_pid:
            return
        with self._lock:
            if self._stopping or self._log.closed:
                return
            self._stopping = True
            try:
                self._end(grace_s)
            finally:
                self._stopping = False
        # Without our lock: whoever holds the guardian's may be collecting garbage, and want ours.
        guardian.forget(self._watched)
        _alive.discard(self)

    def _end(self, grace_s: float) -> None:
        self._channel.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(grace_s)
        # What the environment started may have outlived it, also in a session of its own.
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        kill_marked(self._marker)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)
        self._log.close()

    def after_fork(self) -> None:
        """In a forked child: do not keep the parent's server alive."""
        self._channel.close()
        self._log.close()
        self._process.returncode = 0  # not our child: nothing to wait for


class ProcessProvider:
    """Starts each server as a process of its own.

    Args:
        workers: Worker processes of each, which share its sessions.
        sandbox: `Sandbox`'s keywords; it honours ``environment`` and ``resources.files``.

    Raises:
        InvalidOptionError: One of them does not hold, or cannot be honoured.
    """

    name = "process"
    isolates = False
    honours: ClassVar[frozenset[str]] = frozenset({"environment", "files"})

    def __init__(self, *, workers: int = 1, **sandbox: Any) -> None:
        self._workers = check_workers(workers)
        self._sandbox = Sandbox.of(**sandbox)
        self._sandbox.refuse_unhonoured(self.name, self.honours)

    def start(self, target: ServerTarget) -> RunningServer:
        """Start a server; see `Provider`."""
        refuse_isolation(target, self.name)
        return ProcessServer(target, workers=self._workers, sandbox=self._sandbox)

    def inventory(self) -> list[Item]:
        """Return what processes of this library have on this machine, directories included."""
        return [*local.processes("process", "egress", "guardian"), *local.directories()]

    def log(self, item: Item, lines: int) -> str:
        """Return the last lines that a server wrote; see `openenv_gym.providers.local.log`."""
        return local.log(item, lines)

    def remove(self, item: Item) -> None:
        """End a server, or remove a directory; see `openenv_gym.providers.local.remove`."""
        local.remove(item)

    def __repr__(self) -> str:
        return f"ProcessProvider(workers={self._workers}, sandbox={self._sandbox!r})"


def _limit_files(files: int | None) -> str:
    """Return code that bounds the open files of the process that runs it."""
    if files is None:
        return ""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most != resource.RLIM_INFINITY and files > most:
        raise errors.ServerStartError(
            f"A process may open {most} files on this machine, and files={files} are asked for.",
            field="files",
            hint="Ask for fewer, or raise the limit (ulimit -Hn).",
        )
    return f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files})); "


def _inherited(*, own_python: bool) -> dict[str, str]:
    """Return our variables, without those that would lead another interpreter to our packages."""
    names = () if own_python else ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if name not in names}


_alive: set[ProcessServer] = set()


def _after_fork() -> None:
    for server in list(_alive):
        server.after_fork()
    _alive.clear()


os.register_at_fork(after_in_child=_after_fork)
