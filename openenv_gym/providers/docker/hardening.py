"""What a container may do: as little as it needs, without any option set.

The flags and why each is there are described in docs/security.md.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field, fields
from typing import Any

from openenv_gym.errors import InvalidOptionError


__all__ = ["MOUNT_POINT", "PORT", "ContainerLimits", "container_options"]

MOUNT_POINT = "/run/openenv"
PORT = 8000
_USERS = range(20_000, 60_000)  # below 65,536, which is all that a user namespace maps


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
            # With less than a hundredth of a processor the daemon sets no limit at all.
            least, word = (0.01, "number") if kind is float else (1, "integer")
            number = isinstance(value, (int, kind)) and not isinstance(value, bool)
            if not number or not least <= value < 2**63:
                raise InvalidOptionError(
                    f"{each.name} is {value!r:.40}, expected a finite {word} of at least {least}.",
                    field=each.name,
                )

    @classmethod
    def default(
        cls,
        *,
        num_servers: int = 1,
        num_envs: int = 1,
        cores: int | None = None,
        machine_bytes: int | None = None,
    ) -> ContainerLimits:
        """Return limits for one of several servers on a machine.

        A threaded engine starts a thread for each processor that it sees, and some start one for
        each sub-environment: neither must run into a limit that nobody set on purpose.

        Args:
            num_servers: Servers that share the machine.
            num_envs: Sub-environments of one of them.
            cores: Processors of the machine; by default of this one.
            machine_bytes: Its memory, which no container gets more of.
        """
        cores = cores or os.cpu_count() or 1
        memory_bytes = (2 << 30) + num_envs * (16 << 20)
        return cls(
            memory_bytes=min(memory_bytes, machine_bytes or memory_bytes),
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

    user = secrets.choice(_USERS)
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
        # Limits of the kernel that count for each user would else be shared by all containers.
        "user": f"{user}:{user}",
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
        # As docker-py has it, a container that is not detached ends its standard input for good
        # when whoever attached to it is gone.
        "detach": mount is not None,
    }
