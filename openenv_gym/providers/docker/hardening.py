"""What a container may do: as little as it needs, without any option set.

The flags and why each is there are described in docs/security.md.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from typing import Any

from openenv_gym.errors import InvalidOptionError


__all__ = ["MOUNT_POINT", "PORT", "ContainerLimits", "container_options"]

MOUNT_POINT = "/run/openenv"
PORT = 8000
NOBODY = "65534:65534"


@dataclass(frozen=True)
class ContainerLimits:
    """Bounds of one container.

    Attributes:
        memory_bytes: Memory; swap is not added to it.
        cpus: Processors, as a number of them.
        pids: Processes and threads.
        tmp_bytes: Size of ``/tmp``, the only place to write to; it counts as memory.
        files: Open files of each process.
        log_bytes: Log kept by the daemon.
    """

    memory_bytes: int = 2 << 30
    cpus: float = field(default_factory=lambda: float(os.cpu_count() or 1))
    pids: int = 256
    tmp_bytes: int = 64 << 20
    files: int = 4096
    log_bytes: int = 5 << 20

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            kind = float if each.name == "cpus" else int
            if isinstance(value, bool) or not isinstance(value, (int, kind)) or not value > 0:
                raise InvalidOptionError(
                    f"{each.name} is {value!r:.40}, expected a positive "
                    f"{'number' if kind is float else 'integer'}.",
                    field=each.name,
                )

    @classmethod
    def default(cls, *, num_servers: int = 1, num_envs: int = 1) -> ContainerLimits:
        """Return limits for one of several servers on this machine.

        A threaded engine starts a thread for each processor that it sees, and some start one for
        each sub-environment: neither must run into a limit that nobody set on purpose.

        Args:
            num_servers: Servers that share the machine.
            num_envs: Sub-environments of one of them.
        """
        cores = os.cpu_count() or 1
        return cls(
            memory_bytes=(2 << 30) + num_envs * (16 << 20),
            cpus=max(1.0, cores / num_servers),
            pids=256 + 2 * num_envs + 2 * cores,
        )


def container_options(
    limits: ContainerLimits, *, mount: str | None = None, published: bool = False
) -> dict[str, Any]:
    """Return the keyword arguments of docker-py's ``containers.create``.

    Args:
        limits: Bounds of the container.
        mount: Directory of the host that appears, read-only, at `MOUNT_POINT`; without one the
            container reads its standard input.
        published: Give it a network, and publish `PORT` on the loopback interface.
    """
    from docker.types import LogConfig, Mount, Ulimit

    mounts = []
    if mount is not None:
        mounts = [Mount(MOUNT_POINT, mount, type="bind", read_only=True, propagation="rprivate")]
    network: dict[str, Any] = {"network_mode": "none"}
    if published:
        network = {"network_mode": "bridge", "ports": {f"{PORT}/tcp": ("127.0.0.1", None)}}
    return {
        **network,
        "read_only": True,
        "mounts": mounts,
        "tmpfs": {
            "/tmp": f"rw,nosuid,nodev,noexec,size={limits.tmp_bytes},nr_inodes=4096,mode=1777"
        },
        "shm_size": 1 << 20,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "user": NOBODY,
        "pids_limit": limits.pids,
        "mem_limit": limits.memory_bytes,
        "memswap_limit": limits.memory_bytes,
        "nano_cpus": int(limits.cpus * 1e9),
        "ulimits": [
            Ulimit(name="nofile", soft=limits.files, hard=limits.files),
            Ulimit(name="core", soft=0, hard=0),
        ],
        "ipc_mode": "private",
        "init": True,
        "log_config": LogConfig(
            type="json-file", config={"max-size": str(limits.log_bytes), "max-file": "1"}
        ),
        "environment": {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "HOME": "/tmp"},
        "stdin_open": mount is None,
        "tty": False,
        "detach": True,
    }
