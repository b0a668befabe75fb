"""A server in threads of this process: for debugging and tests. Nothing isolates it."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from typing import Any, ClassVar

from openenv_gym import errors
from openenv_gym.client import Address, Loss, not_lost
from openenv_gym.providers.base import (
    GRACE_S,
    NEW_ONE,
    RunningServer,
    ServerTarget,
    check_workers,
    refuse_isolation,
)
from openenv_gym.providers.inventory import Item
from openenv_gym.providers.sandbox import Sandbox
from openenv_gym.server import Application, Server, load_app


__all__ = ["ThreadProvider", "ThreadServer"]


class ThreadServer:
    """A server in this process, reached through socket pairs."""

    uri = "ws://localhost/ws"
    token: str | None = None

    def __init__(self, server: Server) -> None:
        self.server = server
        self._owner_pid = os.getpid()
        self._stopped = False
        server.start()

    @property
    def address(self) -> Address:
        """This object itself: it dials by making a pair of sockets."""
        return self

    def dial(self, timeout_s: float, why_lost: Loss = not_lost) -> socket.socket:
        """Return one end of a socket pair whose other end the server serves; see `Address`."""
        if self._stopped:
            raise errors.ServerUnreachableError(f"No server answers at {self}: it was stopped.")
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        except OSError as error:
            raise errors.ServerUnreachableError(
                f"Cannot make a connection to {self}: {error.strerror}."
            ) from error
        self.server.adopt(theirs, "thread")
        return ours

    def why_lost(self) -> errors.ConnectionLostError | None:
        """Tell why the server is gone; None while it runs."""
        if not self._stopped:
            return None
        return errors.ServerDiedError("The server in this process was stopped.", hint=NEW_ONE)

    def log_tail(self) -> str:
        """Return nothing: its log is this process's own."""
        return ""

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Stop the server."""
        if not self._stopped and os.getpid() == self._owner_pid:
            self._stopped = True
            self.server.stop(grace_s)

    def __str__(self) -> str:
        return f"thread:{self.server.app.name}"


class ThreadProvider:
    """Starts servers in threads of this process.

    Args:
        workers: 1; threads of one process are no workers.
        sandbox: `Sandbox`'s keywords, none of which it can honour.

    Raises:
        InvalidOptionError: One of them is set.
    """

    name = "thread"
    isolates = False
    honours: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, *, workers: int = 1, **sandbox: Any) -> None:
        if check_workers(workers) > 1:
            raise errors.InvalidOptionError(
                f"provider='thread' cannot honour workers={workers}.",
                field="workers",
                hint="Leave it away, or take process or docker.",
            )
        Sandbox.of(**sandbox).refuse_unhonoured(self.name, self.honours)

    def start(self, target: ServerTarget) -> RunningServer:
        """Start a server; see `Provider`."""
        refuse_isolation(target, self.name)
        with _as_start_error():
            app = load_app(target.package, thread_affinity=target.thread_affinity)
        return self.serve(app)

    def inventory(self) -> list[Item]:
        """Return nothing: its servers end with this process."""
        return []

    def remove(self, item: Item) -> None:
        """Do nothing: there is none."""

    def serve(self, app: Application) -> ThreadServer:
        """Start a server for an application that exists already.

        Raises:
            ServerStartError: The system refuses what a server needs.
        """
        with _as_start_error():
            return ThreadServer(Server(app))


@contextlib.contextmanager
def _as_start_error() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise errors.ServerStartError(f"Cannot start a server in this process: {error}.") from error
