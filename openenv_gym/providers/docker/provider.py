"""Servers in hardened containers of a Docker daemon."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from openenv_gym import errors
from openenv_gym.providers.base import RunningServer, ServerTarget, check_workers
from openenv_gym.providers.docker.container import DockerServer, MountError, Reach
from openenv_gym.providers.docker.daemon import (
    OWNER_LABEL,
    connect_daemon,
    daemon_facts,
    labelled,
    remove_labelled,
    translated,
)
from openenv_gym.providers.docker.hardening import OCCUPIED, ContainerLimits
from openenv_gym.providers.docker.images import BUILD_CHOICES, ensure_image
from openenv_gym.providers.inventory import Item
from openenv_gym.providers.owner import Owner
from openenv_gym.providers.sandbox import Sandbox


__all__ = ["DockerProvider"]

_log = logging.getLogger("openenv_gym")


class DockerProvider:
    """Starts each server in a hardened container of its own (docs/security.md).

    Args:
        image: Image to take in place of the environment's own.
        build: What to do where the image is missing or of another source: ``"auto"`` builds or
            pulls it, ``"never"`` is an error, ``"always"`` builds it anyway.
        reach: How a server is reached: ``"auto"`` through a Unix socket in a directory that the
            container can only read, or, where the daemon cannot mount one, through
            ``docker exec``; ``"socket"`` and ``"exec"`` insist on one of the two; ``"port"``
            publishes a port on the daemon's loopback interface, and gives the container a network.
        workers: Worker processes of each server, which share its sessions.
        sandbox: `Sandbox`'s keywords, all of which it honours. Without ``resources`` the bounds
            are derived from the daemon's machine, without ``network`` there is none.

    Raises:
        InvalidOptionError: One of them does not hold.
    """

    name = "docker"
    isolates = True
    separates_sessions = True
    honours: ClassVar[frozenset[str]] = frozenset(
        {"memory_bytes", "cpus", "gpus", "pids", "tmp_bytes", "files", "log_bytes"}
        | {"network", "mounts", "environment", "runtime"}
    )

    def __init__(
        self,
        *,
        image: str | None = None,
        build: str = "auto",
        reach: str = "auto",
        workers: int = 1,
        **sandbox: Any,
    ) -> None:
        _check("image", image, "the name of an image", image is None or _is_text(image))
        _check("build", build, f"one of {', '.join(BUILD_CHOICES)}", build in BUILD_CHOICES)
        names = ["auto", *(each.value for each in Reach)]
        _check("reach", reach, f"one of {', '.join(names)}", reach in names)
        self._workers = check_workers(workers)
        self._image = image
        self._build = build
        self._reach = None if reach == "auto" else Reach(reach)
        self._sandbox = Sandbox.of(**sandbox)
        self._check_sandbox()

    def __repr__(self) -> str:
        return (
            f"DockerProvider(image={self._image!r}, build={self._build!r}, "
            f"reach={self._reach.value if self._reach else 'auto'!r}, workers={self._workers}, "
            f"sandbox={self._sandbox!r})"
        )

    def start(self, target: ServerTarget) -> RunningServer:
        """Start a server; see `Provider`.

        Raises:
            ProviderUnavailableError: No daemon answers.
            ProviderPermissionError: This user may not use it.
            ImageError: There is no image, and none can be made.
            OutOfDiskError: The daemon has no space left.
            ServerStartError: The daemon refuses for another reason.
        """
        client = connect_daemon()
        wanted = self._image or target.image or target.package
        with translated(f"look for {wanted}", wanted):
            image = ensure_image(
                client, target.package, image=self._image or target.image, build=self._build
            )
            facts = daemon_facts(client)
        limits = ContainerLimits.within(
            self._sandbox.resources,
            num_servers=target.num_servers,
            num_envs=target.num_envs,
            workers=self._workers,
            isolate_sessions=target.isolate_sessions,
            # Of the daemon's machine, which need not be this one.
            cores=facts.get("NCPU"),
            machine_bytes=facts.get("MemTotal"),
        )
        reach = self._reach or (Reach.SOCKET if _shares_files(client, facts) else Reach.EXEC)
        start = functools.partial(
            DockerServer,
            client,
            target,
            image,
            limits,
            workers=self._workers,
            sandbox=self._sandbox,
        )
        try:
            return start(reach=reach)
        except MountError:
            if self._reach is not None:
                raise
            _log.info("The Docker daemon does not see this machine's files; using docker exec.")
            return start(reach=Reach.EXEC)

    def inventory(self) -> list[Item]:
        """Return the containers that this library has made on the daemon, for whomever.

        Raises:
            ProviderUnavailableError: No daemon answers.
            ProviderPermissionError: This user may not use it.
        """
        client = connect_daemon(sweeping=False)
        with translated("list containers", ""):
            return [
                Item(
                    self.name,
                    "container",
                    container["Id"][:12],
                    Owner.parse(str(container["Labels"].get(OWNER_LABEL, ""))),
                    f"{container.get('Image', '')}, {container.get('Status', '')}",
                )
                for container in labelled(client)
            ]

    def remove(self, item: Item) -> None:
        """Remove a container with what was made for it.

        Raises:
            ProviderError: The daemon refuses.
        """
        client = connect_daemon(sweeping=False)
        with translated(f"remove the container {item.name}", ""):
            for container in labelled(client):
                if container["Id"].startswith(item.name):
                    remove_labelled(client, container)

    def _check_sandbox(self) -> None:
        """Refuse what contradicts itself or what a container has already."""
        network = self._sandbox.network
        if self._reach is Reach.PORT and network is not None and network.mode != "open":
            raise errors.InvalidOptionError(
                f"network={network.mode!r} with reach='port': a port needs an open network.",
                field="network",
                hint="Leave reach= away: a server is reached without a network as well.",
            )
        for mount in self._sandbox.mounts:
            if any(mount.target == own or mount.target.startswith(f"{own}/") for own in OCCUPIED):
                raise errors.InvalidOptionError(
                    f"target is {mount.target!r}, where the container has something of its own.",
                    field="target",
                    hint=f"Take a place that is not below {', '.join(OCCUPIED)}.",
                )


def _shares_files(client: Any, facts: Mapping[str, Any]) -> bool:
    """Tell whether a directory of this machine can be mounted, and a socket in it be used."""
    if not str(client.api.base_url).startswith("http+docker://"):
        return False  # over TCP or SSH: another machine, for all we know
    # The virtual machine of Docker Desktop mounts our files, but a socket there leads nowhere.
    return "Docker Desktop" not in str(facts.get("OperatingSystem"))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _check(name: str, value: object, expected: str, good: bool) -> None:
    if not good:
        raise errors.InvalidOptionError(f"{name}={value!r:.80}: expected {expected}.", field=name)
