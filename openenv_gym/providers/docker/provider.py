"""Servers in hardened containers of the local Docker daemon."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
import threading
from typing import Any

from openenv_gym import errors
from openenv_gym._version import __version__
from openenv_gym.client import Address, InboundAddress
from openenv_gym.providers.base import RunningServer, ServerTarget
from openenv_gym.providers.docker.hardening import (
    MOUNT_POINT,
    ContainerLimits,
    container_options,
)
from openenv_gym.providers.guardian import guardian


__all__ = ["DockerProvider", "DockerServer", "connect_daemon"]

OWNER_LABEL = "openenv.owner"
_LOG_TAIL_LINES = 40


def connect_daemon() -> Any:
    """Return a client of the daemon that the environment names.

    Raises:
        ProviderError: The package is missing, no daemon answers, or it may not be used.
    """
    try:
        import docker
    except ImportError as error:
        raise errors.ProviderError(
            "The Docker provider needs the package docker.",
            hint='pip install "openenv-gym[docker]"',
        ) from error
    try:
        client = docker.from_env(timeout=60)
        client.ping()
    except Exception as error:
        hint = "Start the Docker daemon, or set DOCKER_HOST."
        if "Permission denied" in str(error):
            hint = (
                "Your user may not use the daemon: join the group docker, or use rootless Docker."
            )
        raise errors.ProviderError(f"No Docker daemon can be used: {error}.", hint=hint) from error
    return client


class DockerServer:
    """A server in a container without a network, which dials a socket that we listen on."""

    def __init__(
        self, client: Any, target: ServerTarget, image: str, limits: ContainerLimits
    ) -> None:
        self._owner_pid = os.getpid()
        self._lock = threading.Lock()
        self._client = client
        self._stopped = False
        # The outer directory keeps other users of this machine out, the inner one is mounted.
        self._directory = tempfile.mkdtemp(prefix="openenv-")
        mount = os.path.join(self._directory, "run")
        os.mkdir(mount, 0o755)
        os.chmod(mount, 0o755)
        self._address = InboundAddress(os.path.join(mount, "s"), f"docker:{image}")
        command = ["python", "-m", "openenv_gym.server", target.package, "--dial"]
        command.append(f"{MOUNT_POINT}/s")
        if target.thread_affinity:
            command.append("--thread-affinity")
        self._container: Any = None
        try:
            self._container = client.containers.create(
                image,
                command,
                labels={
                    OWNER_LABEL: f"{socket.gethostname()}:{os.getpid()}",
                    "openenv.environment": target.package,
                    "openenv.version": __version__,
                },
                **container_options(limits, mount),
            )
            guardian.watch(f"container:{self._container.id}")
            self._container.start()
        except Exception as error:
            self.stop()
            raise errors.ServerStartError(
                f"Docker cannot start a container of {image}: {error}", data={"image": image}
            ) from error

    @property
    def address(self) -> Address:
        """Where the server dials in."""
        return self._address

    @property
    def container_id(self) -> str:
        """Id of the container."""
        return str(self._container.id)

    def why_lost(self) -> str | None:
        """Say why the server is gone; None while it runs."""
        try:
            self._container.reload()
        except Exception as error:
            return f"The container is gone: {error}"
        state = self._container.attrs["State"]
        if state["Running"]:
            return None
        how = f"ended with code {state['ExitCode']}"
        if state.get("OOMKilled"):
            how = "ran out of memory and was killed"
        elif state["ExitCode"] == 137:
            how = "was killed"
        text = f"The container {self._container.short_id} of {self._address} {how}."
        tail = self.log_tail()
        return f"{text}\nLast lines of the server:\n{tail}" if tail else text

    def log_tail(self) -> str:
        """Return the last lines that it wrote."""
        if self._container is None:
            return ""
        with contextlib.suppress(Exception):
            return (
                bytes(self._container.logs(tail=_LOG_TAIL_LINES)).decode(errors="replace").strip()
            )
        return ""

    def stop(self) -> None:
        """Remove the container and everything made for it."""
        if os.getpid() != self._owner_pid:
            return
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            self._address.close()
            if self._container is not None:
                with contextlib.suppress(Exception):
                    self._container.remove(force=True, v=True)
                guardian.forget(f"container:{self._container.id}")
            shutil.rmtree(self._directory, ignore_errors=True)


class DockerProvider:
    """Starts each server in a container of its own."""

    name = "docker"

    def __init__(self, *, limits: ContainerLimits | None = None) -> None:
        self._limits = limits or ContainerLimits.default()

    def start(self, target: ServerTarget) -> RunningServer:
        """Start a server; see `Provider`."""
        client = connect_daemon()
        image = target.image or f"openenv-gym-{target.package.removesuffix('_env')}"
        return DockerServer(client, target, image, self._limits)
