"""What a container may do: as little as it needs, without any option set.

The flags and why each is there are described in docs/security.md.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from typing import Any, Literal

from openenv_gym.errors import InvalidOptionError
from openenv_gym.providers.docker.daemon import MOUNT_POINT
from openenv_gym.providers.sandbox import Mount, Resources, Sandbox


__all__ = [
    "OCCUPIED",
    "PORT",
    "SERVER_PLACE",
    "ContainerLimits",
    "IsolatedSessions",
    "container_options",
]

PORT = 8000
SERVER_PLACE = "/run/server"
"""Where a server writes that shares nothing with its sessions: its socket, where it has one."""
_SESSIONS = "/run/sessions"
OCCUPIED = (MOUNT_POINT, SERVER_PLACE, _SESSIONS, "/tmp")
"""Where nobody else can have anything mounted."""
_SUPERVISOR_PIDS = 64
_SESSION_PIDS = 128  # and two for each processor
_MIN_SESSION_PIDS = 32  # a server, and libraries that start a few threads
_MAX_SESSIONS = 1024
_PROCESS_BYTES = 256 << 20  # for each process beyond the first
_USERS = range(20_000, 60_000)  # below 65,536, which is all that a user namespace maps


@dataclass(frozen=True)
class ContainerLimits:
    """Bounds of one container: what `Resources` asks for, and defaults for the rest.

    Attributes:
        memory_bytes: Memory; swap is not added to it.
        cpus: Processors, as a number of them.
        pids: Processes and threads.
        tmp_bytes: Size of ``/tmp``, the only place to write to; it counts as memory. Where each
            session has a directory of its own instead, the size of each.
        files: Open files of each process.
        log_bytes: Log kept by the daemon.
        gpus: GPUs, as a number of them, or ``"all"``.
    """

    memory_bytes: int = 2 << 30
    cpus: float = field(default_factory=lambda: float(os.cpu_count() or 1))
    pids: int = 256
    tmp_bytes: int = 64 << 20
    files: int = 4096
    log_bytes: int = 5 << 20
    gpus: int | Literal["all"] | None = None

    @classmethod
    def within(
        cls,
        resources: Resources,
        *,
        num_servers: int = 1,
        num_envs: int = 1,
        workers: int = 1,
        isolate_sessions: bool = False,
        cores: int | None = None,
        machine_bytes: int | None = None,
    ) -> ContainerLimits:
        """Return limits for one of several servers on a machine.

        What is asked for is taken, the rest has room for what runs there. A threaded engine
        starts a thread for each processor that it sees, and some start one for each
        sub-environment: neither must run into a limit that nobody set on purpose.

        Args:
            resources: What is asked for.
            num_servers: Servers that share the machine.
            num_envs: Sub-environments of one of them.
            workers: Worker processes of one of them.
            isolate_sessions: Each sub-environment is a session with a process of its own.
            cores: Processors of the machine; by default of this one.
            machine_bytes: Its memory, which no container gets more of.
        """
        cores = cores or os.cpu_count() or 1
        processes = num_envs + 1 if isolate_sessions else workers
        memory_bytes = (2 << 30) + num_envs * (16 << 20) + (processes - 1) * _PROCESS_BYTES
        pids = 256 + 2 * num_envs + 2 * cores
        if isolate_sessions:
            pids = _SUPERVISOR_PIDS + processes * (1 + _SESSION_PIDS + 2 * cores)
        elif workers > 1:
            pids = _SUPERVISOR_PIDS + 2 * num_envs + workers * (256 + 2 * cores)
        defaults = {
            "memory_bytes": min(memory_bytes, machine_bytes or memory_bytes),
            "cpus": max(1.0, cores / num_servers),
            "pids": pids,
        }
        return cls(**{**defaults, **resources.set()})


@dataclass(frozen=True)
class IsolatedSessions:
    """Sessions that share a container, each with a process, a user and a directory of its own.

    Attributes:
        count: How many there may be at once.
        pids: Processes and threads of each.
        first_user: User of the first directory; see `openenv_gym.server.workers.isolation.Slots`.
    """

    count: int
    pids: int
    first_user: int

    @classmethod
    def within(cls, limits: ContainerLimits, count: int) -> IsolatedSessions:
        """Divide the bounds of a container.

        Raises:
            InvalidOptionError: They are too few processes for so many sessions.
        """
        slots = count + 1  # the next process is kept ready
        # One process beside each session cleans up after it.
        pids = (limits.pids - _SUPERVISOR_PIDS - slots) // slots
        if pids < _MIN_SESSION_PIDS:
            least = _SUPERVISOR_PIDS + slots * (1 + _MIN_SESSION_PIDS)
            raise InvalidOptionError(
                f"pids is {limits.pids}, expected at least {least} for {count} sessions in one "
                "container.",
                field="pids",
                hint="Raise it, or take more servers (num_servers=).",
            )
        if count > _MAX_SESSIONS:
            raise InvalidOptionError(
                f"{count} sessions in one container, expected at most {_MAX_SESSIONS}.",
                field="num_servers",
                hint="Take more servers.",
            )
        users = range(_USERS.start, _USERS.stop - 2 * slots)
        return cls(count, pids, secrets.choice(users))

    def tmpfs(self, limits: ContainerLimits) -> dict[str, str]:
        """Return the file systems: one for each session, which nobody else can enter.

        None is at ``/tmp``, which has the mode that it has in the image, whatever is asked for.
        """
        options = f"rw,nosuid,nodev,noexec,size={limits.tmp_bytes},nr_inodes=4096,mode=0700"
        return {
            f"{_SESSIONS}/{number}": f"{options},uid={user},gid={user}"
            for number in range(self.count + 1)
            for user in [self.first_user + 2 * number]
        } | {SERVER_PLACE: "rw,nosuid,nodev,noexec,size=65536,nr_inodes=16,mode=0700"}

    def arguments(self, sandbox: Sandbox) -> list[str]:
        """Return arguments of the server.

        Args:
            sandbox: What was asked for. Without a network nothing but the loopback interface is
                left, which sessions would share.
        """
        alone = sandbox.network is None or sandbox.network.mode == "none"
        return [
            "--isolate-sessions",
            *("--session-sockets", "unix" if alone else "all"),
            *("--capacity", str(self.count)),
            *("--session-directory", _SESSIONS),
            *("--session-user", str(self.first_user)),
            *("--session-pids", str(self.pids)),
        ]


def container_options(
    limits: ContainerLimits,
    *,
    sandbox: Sandbox | None = None,
    mount: str | None = None,
    published: bool = False,
    sessions: IsolatedSessions | None = None,
) -> dict[str, Any]:
    """Return the keyword arguments of docker-py's ``containers.create``.

    Args:
        limits: Bounds of the container.
        sandbox: What else was asked for: network, mounts, variables, runtime.
        mount: Directory of the host that appears, read-only, at `MOUNT_POINT`; without one the
            container reads its standard input.
        published: Give it a network, and publish `PORT` on the loopback interface.
        sessions: Sessions that share it, and are separated by a server that may change users.
    """
    from docker.types import DeviceRequest, LogConfig, Ulimit

    sandbox = sandbox or Sandbox()
    user = secrets.choice(_USERS)
    mounts = list(sandbox.mounts)
    if mount is not None:
        mounts.append(Mount(mount, MOUNT_POINT))
    # With an egress list the way out is a socket in that directory: there is no network, either.
    is_open = sandbox.network is not None and sandbox.network.mode == "open"
    network: dict[str, Any] = {"network_mode": "bridge" if is_open or published else "none"}
    if published:
        network["ports"] = {f"{PORT}/tcp": ("127.0.0.1", None)}
    alone: dict[str, Any] = {
        # Limits of the kernel that count for each user would else be shared by all containers.
        "user": f"{user}:{user}",
        "tmpfs": {
            "/tmp": f"rw,nosuid,nodev,noexec,size={limits.tmp_bytes},nr_inodes=4096,mode=1777"
        },
        "shm_size": 1 << 20,
        "ipc_mode": "private",
    }
    if sessions is not None:
        alone = {
            # It holds these two capabilities and no other, so it may become another user, and
            # neither signal others nor read what is theirs.
            "user": "0:0",
            "cap_add": ["SETUID", "SETGID"],
            "tmpfs": sessions.tmpfs(limits),
            "ipc_mode": "none",  # without /dev/shm, where all could write
        }
    return {
        **network,
        **alone,
        "read_only": True,
        "mounts": [_docker_mount(each) for each in mounts],
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "pids_limit": limits.pids,
        "mem_limit": limits.memory_bytes,
        "memswap_limit": limits.memory_bytes,
        "nano_cpus": int(limits.cpus * 1e9),
        "ulimits": [
            Ulimit(name="nofile", soft=limits.files, hard=limits.files),
            Ulimit(name="core", soft=0, hard=0),
        ],
        "init": True,
        "log_config": LogConfig(
            type="json-file", config={"max-size": str(limits.log_bytes), "max-file": "1"}
        ),
        "environment": {
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            "HOME": "/tmp",
            **sandbox.environment,
        },
        "runtime": sandbox.runtime,
        "device_requests": [DeviceRequest(count=_gpus(limits.gpus), capabilities=[["gpu"]])]
        if limits.gpus is not None
        else None,
        "stdin_open": mount is None,
        "tty": False,
        # As docker-py has it, a container that is not detached ends its standard input for good
        # when whoever attached to it is gone.
        "detach": mount is not None,
    }


def _gpus(gpus: int | Literal["all"]) -> int:
    return -1 if gpus == "all" else gpus


def _docker_mount(mount: Mount) -> Any:
    from docker import types

    if mount.is_volume:
        return types.Mount(mount.target, mount.source, type="volume", read_only=mount.read_only)
    return types.Mount(
        mount.target, mount.source, type="bind", read_only=mount.read_only, propagation="rprivate"
    )
