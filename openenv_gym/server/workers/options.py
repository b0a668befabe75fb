"""What a supervisor tells a worker process that it starts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from openenv_gym.protocol.limits import Limits
from openenv_gym.server.logs import LogFormat
from openenv_gym.server.vector.options import DEFAULT_MAX_ENVS


__all__ = ["WorkerOptions"]


@dataclass(frozen=True)
class WorkerOptions:
    """Options of a worker; they stand in its command line, which others can read.

    Attributes:
        environment: What it serves.
        options: What environments are made with where a session does not say otherwise.
        thread_affinity: All calls of an environment in one thread.
        capacity: Sessions at once.
        max_threads: Steps that may run at once.
        max_envs: Sub-environments that a session may have.
        debug: Send tracebacks to clients.
        log_format: How it logs.
        limits: Sizes and times.
        isolate: It serves a single session, and ends with it.
        own_user: It is a user of its own.
        max_pids: Processes and threads that its user may have.
        unix_only: It makes no sockets of IPv4 and IPv6: there is no network, and others listen on
            the same loopback interface.
        number: Its own, which no other worker of the supervisor ever has.
        supervisor: Process id of the supervisor.
        channel_fd: Its end of the channel.
        ledger_fd: Where it leaves its figures, if nobody asks it for them.
    """

    environment: str
    options: dict[str, Any] = field(default_factory=dict)
    thread_affinity: bool = False
    capacity: int = 4096
    max_threads: int = 64
    max_envs: int = DEFAULT_MAX_ENVS
    debug: bool = False
    log_format: str = LogFormat.TEXT.value
    limits: dict[str, Any] = field(default_factory=lambda: Limits().to_wire())
    isolate: bool = False
    own_user: bool = False
    max_pids: int | None = None
    unix_only: bool = False
    number: int = 0
    supervisor: int = 0
    channel_fd: int = -1
    ledger_fd: int = -1

    @property
    def prefix(self) -> str:
        """What the names of its sessions begin with, so that a resume finds them."""
        return f"{self.number}-"

    def to_json(self) -> str:
        """Return what `from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> WorkerOptions:
        """Read options."""
        return cls(**json.loads(text))
