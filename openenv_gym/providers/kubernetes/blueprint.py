"""What the pods of one StatefulSet are to be, in our words and checked."""

from __future__ import annotations

import ipaddress
import math
import re
import socket
from dataclasses import dataclass, field

from openenv_gym import errors
from openenv_gym.providers.base import ServerTarget
from openenv_gym.providers.egress.proxy import is_public
from openenv_gym.providers.sandbox import Mount, Network, Sandbox


__all__ = ["Blueprint", "Peer", "resolve_peers"]

_MEMORY_BYTES = 2 << 30
_PER_ENV_BYTES = 16 << 20
_PER_WORKER_BYTES = 256 << 20
_STEP_BYTES = 256 << 20  # servers of one vector differ by a sub-environment, and share a set
_TMP_BYTES = 64 << 20
_CPUS = 1.0
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class Peer:
    """What may be reached, as a NetworkPolicy can say it.

    Attributes:
        addresses: Addresses of the host.
        port: TCP port.
        name: Name under which the pod knows the addresses; None where it was an address.
    """

    addresses: tuple[str, ...]
    port: int
    name: str | None = None


@dataclass(frozen=True)
class Blueprint:
    """Everything that decides what pods are made: equal ones share a StatefulSet.

    Attributes:
        package: Import name of the environment package, or ``gymnasium``.
        image: Name of its image.
        pull: When a node pulls it: ``"IfNotPresent"``, ``"Always"`` or ``"Never"``.
        arguments: Further arguments of the server.
        memory_bytes: Memory, that of ``/tmp`` included.
        cpus: Processors.
        gpus: GPUs (``nvidia.com/gpu``).
        tmp_bytes: Size of ``/tmp``.
        network: What pods may reach.
        egress: The same, looked up.
        clients: Networks (CIDR) from which trainers outside the cluster come.
        environment: Variables.
        mounts: Volumes: names of PersistentVolumeClaims.
        runtime: Name of a RuntimeClass.
        drain_s: How long sessions may go on after the pod was told to end.
    """

    package: str
    image: str
    pull: str = "IfNotPresent"
    arguments: tuple[str, ...] = ()
    memory_bytes: int = _MEMORY_BYTES
    cpus: float = _CPUS
    gpus: int = 0
    tmp_bytes: int = _TMP_BYTES
    network: Network = field(default_factory=Network.none)
    egress: tuple[Peer, ...] = ()
    clients: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    mounts: tuple[Mount, ...] = ()
    runtime: str | None = None
    drain_s: float = 10.0

    @classmethod
    def of(
        cls,
        target: ServerTarget,
        image: str,
        sandbox: Sandbox,
        *,
        egress: tuple[Peer, ...],
        pull: str,
        workers: int,
        clients: tuple[str, ...],
        drain_s: float,
    ) -> Blueprint:
        """Put together what a target needs and what a sandbox says.

        Args:
            target: What is to be served.
            image: Name of its image.
            sandbox: What it may have and reach.
            egress: The hosts of its network, looked up.
            pull: When a node pulls the image.
            workers: Worker processes.
            clients: Networks from which trainers outside the cluster come.
            drain_s: How long sessions may go on.

        Raises:
            InvalidOptionError: Kubernetes cannot do it.
        """
        arguments = ["--thread-affinity"] if target.thread_affinity else []
        if workers > 1:
            arguments += ["--workers", str(workers)]
        bounds = sandbox.resources
        return cls(
            package=target.package,
            image=image,
            pull=pull,
            arguments=tuple(arguments),
            memory_bytes=bounds.memory_bytes or _usual_memory(target.num_envs, workers),
            cpus=float(bounds.cpus or _CPUS),
            gpus=_count(bounds.gpus),
            tmp_bytes=bounds.tmp_bytes or _TMP_BYTES,
            network=sandbox.network or Network.none(),
            egress=egress,
            clients=clients,
            environment=tuple(sorted(sandbox.environment.items())),
            mounts=tuple(_claim(mount) for mount in sandbox.mounts),
            runtime=sandbox.runtime,
            drain_s=drain_s,
        )

    @property
    def grace_s(self) -> int:
        """How long a pod may take to end: its sessions' time, and a moment to close them."""
        return math.ceil(self.drain_s) + 5


def resolve_peers(network: Network) -> tuple[Peer, ...]:
    """Look up the hosts of an allow-list: a NetworkPolicy knows addresses only.

    What a name leads to is looked up once, here, and the pod is told so (``hostAliases``), because
    a name server would be a way out of its own.

    Raises:
        InvalidOptionError: A name leads nowhere, or into a network that is not public.
    """
    peers = []
    for entry in network.hosts:
        host, _, port = entry.rpartition(":")
        host = host.strip("[]")
        if _is_address(host):
            peers.append(Peer((host,), int(port)))
            continue
        try:
            found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
        except OSError as error:
            raise errors.InvalidOptionError(
                f"network names {entry!r}, and nobody knows {host}: {error.strerror or error}.",
                field="network",
            ) from error
        addresses = sorted({str(each[4][0]) for each in found})
        if inner := [each for each in addresses if not is_public(each)]:
            raise errors.InvalidOptionError(
                f"network names {entry!r}, which leads to {inner[0]}: no public address.",
                field="network",
                hint="List the address itself if you mean it.",
            )
        peers.append(Peer(tuple(addresses), int(port), host))
    return tuple(peers)


def _usual_memory(num_envs: int, workers: int) -> int:
    wanted = _MEMORY_BYTES + (num_envs - 1) * _PER_ENV_BYTES + (workers - 1) * _PER_WORKER_BYTES
    return -(-wanted // _STEP_BYTES) * _STEP_BYTES


def _count(gpus: int | str | None) -> int:
    if gpus == "all":
        raise errors.InvalidOptionError(
            "gpus is 'all', expected a number: pods are given GPUs one by one.", field="gpus"
        )
    return int(gpus or 0)


def _claim(mount: Mount) -> Mount:
    if not mount.is_volume:
        raise errors.InvalidOptionError(
            f"mounts has the directory {mount.source!r:.80}, expected the name of a "
            "PersistentVolumeClaim: a pod runs on another machine, whose directories are closed "
            "to it (Pod Security Standards, restricted).",
            field="mounts",
        )
    if _NAME.fullmatch(mount.source) is None:
        raise errors.InvalidOptionError(
            f"mounts has {mount.source!r:.80}, which is no name of a PersistentVolumeClaim: "
            "expected lower-case letters, digits, '-' and '.'.",
            field="mounts",
        )
    return mount


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
