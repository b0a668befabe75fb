"""Containers that are kept ready, for those who cannot wait for one to start."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Callable

from openenv_gym import metrics
from openenv_gym.client import Address
from openenv_gym.errors import ConnectionLostError, OpenEnvGymError, ServerDiedError
from openenv_gym.providers.base import GRACE_S, NEW_ONE, ServerTarget
from openenv_gym.providers.docker.container import DockerServer


__all__ = ["KeptServer", "WarmPool"]

_log = logging.getLogger("openenv_gym")

_hits = metrics.PROCESS.counter(
    "openenv_warm_hits_total", "Servers that were ready when they were asked for."
)
_misses = metrics.PROCESS.counter(
    "openenv_warm_misses_total", "Servers that had to be started because none was ready."
)

Make = Callable[[ServerTarget], DockerServer]


class KeptServer:
    """A server out of a pool: when it is stopped, it may go back there.

    Args:
        pool: Where it goes.
        target: What it serves.
        server: The server itself.
    """

    def __init__(self, pool: WarmPool, target: ServerTarget, server: DockerServer) -> None:
        self._pool = pool
        self._target = target
        self._server: DockerServer | None = server
        self.token = server.token
        self.address: Address = server.address
        self.container_id = server.container_id

    def why_lost(self) -> ConnectionLostError | None:
        """Tell why the server is gone, with its last lines; None while it runs."""
        server = self._server
        if server is None:
            return ServerDiedError("The server was stopped.", hint=NEW_ONE)
        return server.why_lost()

    def log_tail(self) -> str:
        """Return the last lines that it wrote, also for those who had it before."""
        server = self._server
        return "" if server is None else server.log_tail()

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Give it back where its environment resets fully; else remove it."""
        server, self._server = self._server, None
        if server is not None and not self._pool.take_back(self._target, server):
            server.stop(grace_s)


class WarmPool:
    """Servers that nobody uses yet, so many for each target that was asked for.

    Args:
        size: How many to keep ready.
        make: Starts one.
    """

    def __init__(self, size: int, make: Make) -> None:
        self._size = size
        self._make = make
        self._owner_pid = os.getpid()
        # Reentrant: the garbage collector may run a finalizer, which stops, in any line of ours.
        self._lock = threading.RLock()
        self._idle: dict[ServerTarget, list[DockerServer]] = {}
        self._coming: dict[ServerTarget, int] = {}
        self._closed = False
        _pools.add(self)

    def take(self, target: ServerTarget) -> KeptServer:
        """Return a server: one that is ready, or a new one; others are made ready meanwhile.

        Raises:
            ServerStartError: There is none ready, and none can be started.
            ProviderError: Likewise.
        """
        while True:
            with self._lock:
                idle = self._idle.setdefault(target, [])
                server = idle.pop() if idle else None
            if server is None:
                _misses.add()
                server = self._make(target)
                break
            if server.why_lost() is None:
                _hits.add()
                break
            server.stop()
        self.fill(target)
        return KeptServer(self, target, server)

    def fill(self, target: ServerTarget) -> None:
        """Make ready what is missing, in threads of their own."""
        with self._lock:
            there = len(self._idle.setdefault(target, [])) + self._coming.get(target, 0)
            missing = 0 if self._closed else max(self._size - there, 0)
            self._coming[target] = self._coming.get(target, 0) + missing
        for _ in range(missing):
            threading.Thread(target=self._add, args=(target,), name="warm", daemon=True).start()

    def _add(self, target: ServerTarget) -> None:
        server = None
        try:
            server = self._make(target)
        except OpenEnvGymError as error:
            # Whoever needs one will try again, and be told.
            _log.warning("No container could be made ready: %s", error)
        with self._lock:
            self._coming[target] = max(self._coming.get(target, 0) - 1, 0)
            if server is not None and not self._closed:
                self._idle.setdefault(target, []).append(server)
                server = None
        if server is not None:
            server.stop()

    def take_back(self, target: ServerTarget, server: DockerServer) -> bool:
        """Keep a server that was used, where it may be used again; tell whether it is kept."""
        if not target.resets_fully or os.getpid() != self._owner_pid:
            return False
        if server.why_lost() is not None:
            return False
        with self._lock:
            idle = self._idle.setdefault(target, [])
            # Twice as many, or each use would throw away what was made ready in its place.
            kept = not self._closed and len(idle) < 2 * self._size
            if kept:
                idle.append(server)
        return kept

    def ready(self) -> int:
        """Return how many are ready."""
        with self._lock:
            return sum(map(len, self._idle.values()))

    def close(self) -> None:
        """Remove those that nobody uses; those in use are removed when they are stopped."""
        with self._lock:
            self._closed = True
            servers = [server for idle in self._idle.values() for server in idle]
            self._idle.clear()
        if os.getpid() == self._owner_pid:
            for server in servers:
                with contextlib.suppress(OpenEnvGymError):
                    server.stop()

    def after_fork(self) -> None:
        """In a forked child: what is ready is the parent's."""
        self._lock = threading.RLock()
        self._idle.clear()
        self._coming.clear()
        self._owner_pid = os.getpid()


_pools: weakref.WeakSet[WarmPool] = weakref.WeakSet()


def _after_fork() -> None:
    for pool in list(_pools):
        pool.after_fork()


os.register_at_fork(after_in_child=_after_fork)
