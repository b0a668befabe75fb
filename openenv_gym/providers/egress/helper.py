"""The owner's side: a proxy in a process of its own, since strangers' bytes are read there."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import uuid

from openenv_gym import errors
from openenv_gym.providers.egress import proxy
from openenv_gym.providers.guardian import KIND, MARKER, OWNER, guardian, kill_marked
from openenv_gym.providers.owner import Owner
from openenv_gym.providers.sandbox import Network


__all__ = ["EgressProxy"]

_END_S = 5.0


class EgressProxy:
    """A proxy behind a Unix socket; it ends with the process that made it.

    Args:
        network: What it may connect to.
        path: Where it listens. The directory decides who can connect.

    Raises:
        ServerStartError: The system refuses.
    """

    def __init__(self, network: Network, path: str) -> None:
        self._owner_pid = os.getpid()
        self._path = path
        marker = uuid.uuid4().hex
        self._marker = marker
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(path)
                os.chmod(path, 0o666)  # the server is another user; the directory keeps others out
                listener.listen(64)
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", proxy.__file__, str(listener.fileno())],
                    pass_fds=[listener.fileno()],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={
                        **os.environ,
                        MARKER: marker,
                        OWNER: str(Owner.current()),
                        KIND: "egress",
                    },
                    start_new_session=True,
                )
            self._watched = f"process:{self._process.pid}:{marker}"
            guardian.watch(self._watched)
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"hosts": network.hosts}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            self.close()
            raise errors.ServerStartError(f"Cannot start a proxy at {path}: {error}.") from error

    def close(self) -> None:
        """End it. Safe to repeat, and in a forked child."""
        process = getattr(self, "_process", None)
        if process is None or os.getpid() != self._owner_pid or process.stdin.closed:
            return
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            kill_marked(self._marker)
            process.wait(_END_S)
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        guardian.forget(self._watched)

    def after_fork(self) -> None:
        """In a forked child: do not keep the parent's proxy alive."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            os.close(self._process.stdin.fileno())
        self._process.returncode = 0
