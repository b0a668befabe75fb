"""Servers that several tests use one after the other: starting them takes longer than most tests."""

from __future__ import annotations

import threading
from typing import Any

from openenv_gym.providers import RunningServer, ServerTarget, get_provider


__all__ = ["SharedServers"]


class SharedServers:
    """A provider whose servers stay when an environment is done with them, for the next one.

    Args:
        name: Of the provider that starts them.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.isolates = get_provider(name).isolates
        self._provider = get_provider(name)
        self._idle: dict[str, list[RunningServer]] = {}
        self._started: list[RunningServer] = []
        self._lock = threading.Lock()

    def start(self, target: ServerTarget) -> RunningServer:
        """Lend a server that nobody uses, or another one."""
        with self._lock:
            idle = self._idle.setdefault(target.package, [])
            server = idle.pop() if idle else None
        if server is None:
            server = self._provider.start(target)
            with self._lock:
                self._started.append(server)
        return _Lent(server, idle)

    def stop(self) -> None:
        """Stop them all."""
        for server in self._started:
            server.stop()

    def __deepcopy__(self, memo: Any) -> SharedServers:
        return self  # `make_vec` copies the arguments that it was given


class _Lent:
    """A server that goes back when it would be stopped."""

    def __init__(self, server: RunningServer, idle: list[RunningServer]) -> None:
        self.address = server.address
        self.token = server.token
        self.why_lost = server.why_lost
        self.log_tail = server.log_tail
        self._server = server
        self._idle = idle
        self._lock = threading.Lock()
        self._back = False

    def stop(self, grace_s: float = 5.0) -> None:
        with self._lock:
            if not self._back:
                self._back = True
                self._idle.append(self._server)
