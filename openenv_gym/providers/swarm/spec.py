"""What Swarm is asked to run: a service for an environment, as confined as Swarm can make it.

What a container has under Docker and a task has not: ``docs/swarm.md``.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openenv_gym._version import __version__
from openenv_gym.providers.base import ServerTarget
from openenv_gym.providers.docker.daemon import OWNER_LABEL
from openenv_gym.providers.docker.hardening import PORT, ContainerLimits
from openenv_gym.providers.owner import Owner
from openenv_gym.providers.sandbox import Sandbox
from openenv_gym.providers.swarm import launcher


__all__ = ["ENVIRONMENT_LABEL", "Plan", "published_port"]

ENVIRONMENT_LABEL = "openenv.environment"
_TOKEN_FILE = "openenv-token"
_USERS = range(20_000, 60_000)
_GRACE_S = 10.0  # beyond the drain, for a server to end by itself
_RESTART_S = 0.5
_NS = 1_000_000_000
_OPEN_MODE = 0o1777


@dataclass(frozen=True)
class Plan:
    """All that decides about the tasks of a service: equal plans share one.

    Attributes:
        target: What is served; how many servers share the swarm has no part in it.
        image: Its image.
        limits: Bounds of each task.
        sandbox: What else was asked for.
        workers: Worker processes of each server.
        drain_s: How long a server that is told to stop waits for its sessions.
        constraints: Which nodes may run it, in Swarm's words.
    """

    target: ServerTarget
    image: str
    limits: ContainerLimits
    sandbox: Sandbox
    workers: int = 1
    drain_s: float = 10.0
    constraints: tuple[str, ...] = ()
    user: int = field(default_factory=lambda: secrets.choice(_USERS), compare=False)

    def labels(self) -> dict[str, str]:
        """Return what says whose it is and what for.

        The owner's label is not on containers: they are Swarm's, which would make others.
        """
        return {
            OWNER_LABEL: str(Owner.current()),
            ENVIRONMENT_LABEL: self.target.package,
            "openenv.version": __version__,
        }

    def task(self, secret: Mapping[str, str]) -> dict[str, Any]:
        """Return a ``TaskTemplate`` of the Engine's API.

        Args:
            secret: ``id`` and ``name`` of the secret that holds the token.
        """
        return {
            "ContainerSpec": self._container(secret),
            "Resources": {"Limits": self._limits(), "Reservations": self._reservations()},
            "LogDriver": {
                "Name": "json-file",
                "Options": {"max-size": str(self.limits.log_bytes), "max-file": "1"},
            },
            # A server never ends by itself, so one that ended is to be replaced.
            "RestartPolicy": {"Condition": "any", "Delay": int(_RESTART_S * _NS)},
            "Placement": {"Constraints": list(self.constraints)},
        }

    @staticmethod
    def endpoint() -> dict[str, Any]:
        """Return an ``EndpointSpec``: each task has a port of its own on its node.

        Neither a virtual IP nor the ingress mesh, which would spread connections over tasks: a
        session that is resumed must get to its own. The node chooses the port, so that it may run
        several tasks.
        """
        port = {"Protocol": "tcp", "TargetPort": PORT, "PublishMode": "host"}
        return {"Mode": "dnsrr", "Ports": [port]}

    @staticmethod
    def update() -> dict[str, Any]:
        """Return an ``UpdateConfig``: one task after the other, its successor first."""
        return {"Parallelism": 1, "Order": "start-first", "FailureAction": "pause"}

    def _container(self, secret: Mapping[str, str]) -> dict[str, Any]:
        user = str(self.user)
        file = {"Name": _TOKEN_FILE, "UID": user, "GID": user, "Mode": 0o400}
        limits = self.limits
        return {
            "Image": self.image,
            # Without an entry point of the image's, which need not pass signals on.
            "Command": ["python", "-I", "-S", "-c", Path(launcher.__file__).read_text("utf-8")],
            "Args": self._command(),
            "Labels": {ENVIRONMENT_LABEL: self.target.package, "openenv.version": __version__},
            "Env": [
                *("PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1", "HOME=/tmp"),
                *(f"{name}={value}" for name, value in self.sandbox.environment.items()),
            ],
            "User": f"{user}:{user}",
            "Init": True,
            "ReadOnly": True,
            "CapabilityDrop": ["ALL"],
            "StopGracePeriod": int((self.drain_s + _GRACE_S) * _NS),
            "Mounts": [
                _memory("/tmp", limits.tmp_bytes),
                _memory("/dev/shm", 1 << 20),
                *(
                    {
                        "Type": "volume",
                        "Source": mount.source,
                        "Target": mount.target,
                        "ReadOnly": mount.read_only,
                    }
                    for mount in self.sandbox.mounts
                ),
            ],
            "Secrets": [{"SecretID": secret["id"], "SecretName": secret["name"], "File": file}],
            "Ulimits": [
                {"Name": "nofile", "Soft": limits.files, "Hard": limits.files},
                {"Name": "core", "Soft": 0, "Hard": 0},
            ],
        }

    def _command(self) -> list[str]:
        command = ["python", "-m", "openenv_gym.server", self.target.package, "--confine"]
        command += ["--host", "0.0.0.0", "--port", str(PORT)]
        command += ["--token-file", f"/run/secrets/{_TOKEN_FILE}"]
        command += ["--drain-s", f"{self.drain_s:g}"]
        if self.target.thread_affinity:
            command.append("--thread-affinity")
        if self.workers > 1:
            command += ["--workers", str(self.workers)]
        return command

    def _limits(self) -> dict[str, int]:
        limits = self.limits
        return {
            "NanoCPUs": int(limits.cpus * _NS),
            "MemoryBytes": limits.memory_bytes,
            "Pids": limits.pids,
        }

    def _reservations(self) -> dict[str, int]:
        """Return what a node must have left: what was asked for, and not our own defaults."""
        asked = self.sandbox.resources
        wanted: dict[str, int] = {}
        if asked.cpus is not None:
            wanted["NanoCPUs"] = int(asked.cpus * _NS)
        if asked.memory_bytes is not None:
            wanted["MemoryBytes"] = asked.memory_bytes
        return wanted


def _memory(target: str, size_bytes: int) -> dict[str, Any]:
    options = {"SizeBytes": size_bytes, "Mode": _OPEN_MODE}
    return {"Type": "tmpfs", "Target": target, "TmpfsOptions": options}


def published_port(ports: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the port of the node behind which a task listens; None where there is none yet.

    Args:
        ports: ``Status.PortStatus.Ports`` of a task.
    """
    for port in ports:
        if port.get("TargetPort") == PORT and port.get("PublishedPort"):
            return int(port["PublishedPort"])
    return None
