"""Servers in hardened containers of a Docker daemon."""

from __future__ import annotations

import logging
from typing import Any

from openenv_gym import errors
from openenv_gym.providers.base import RunningServer, ServerTarget
from openenv_gym.providers.docker.container import DockerServer, MountError, Reach
from openenv_gym.providers.docker.daemon import connect_daemon
from openenv_gym.providers.docker.hardening import ContainerLimits
from openenv_gym.providers.docker.images import ensure_image


__all__ = ["DockerProvider"]

_log = logging.getLogger("openenv_gym")


class DockerProvider:
    """Starts each server in a hardened container of its own (docs/security.md).

    Args:
        image: Image to take in place of the environment's own.
        build: What to do where the image is missing or of another source: ``"auto"`` builds or
            pulls it, ``"never"`` is an error, ``"always"`` builds it anyway.
        limits: Bounds of a container; derived from this machine where None.
        reach: How a server is reached: ``"auto"`` through a Unix socket in a directory that the
            container can only read, or, where the daemon cannot mount one, through
            ``docker exec``; ``"socket"`` and ``"exec"`` insist on one of the two; ``"port"``
            publishes a port on the daemon's loopback interface, and gives the container a network.

    Raises:
        InvalidOptionError: `reach` or `build` is none of these.
    """

    name = "docker"
    isolates = True

    def __init__(
        self,
        *,
        image: str | None = None,
        build: str = "auto",
        limits: ContainerLimits | None = None,
        reach: str = "auto",
    ) -> None:
        self._image = image
        self._build = build
        self._limits = limits
        names = ["auto", *(each.value for each in Reach)]
        if reach not in names:
            raise errors.InvalidOptionError(
                f"reach={reach!r}: expected one of {', '.join(names)}.", field="reach"
            )
        self._reach = None if reach == "auto" else Reach(reach)

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
        image = ensure_image(
            client, target.package, image=self._image or target.image, build=self._build
        )
        limits = self._limits or ContainerLimits.default(
            num_servers=target.num_servers, num_envs=target.num_envs
        )
        reach = self._reach or (Reach.SOCKET if _shares_files(client) else Reach.EXEC)
        try:
            return DockerServer(client, target, image, limits, reach)
        except MountError:
            if self._reach is not None:
                raise
            _log.info("The Docker daemon does not see this machine's files; using docker exec.")
            return DockerServer(client, target, image, limits, Reach.EXEC)


def _shares_files(client: Any) -> bool:
    """Tell whether a directory of this machine can be mounted, and a socket in it be used."""
    if not str(client.api.base_url).startswith("http+docker://"):
        return False  # over TCP or SSH: another machine, for all we know
    if not hasattr(client, "openenv_is_desktop"):
        # Its virtual machine mounts our files, but a socket among them leads nowhere.
        client.openenv_is_desktop = "Docker Desktop" in str(client.info().get("OperatingSystem"))
    return not client.openenv_is_desktop
