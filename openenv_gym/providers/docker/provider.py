"""Servers in hardened containers of a Docker daemon."""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Mapping
from typing import Any, ClassVar

from openenv_gym import errors
from openenv_gym.providers.base import (
    RunningServer,
    ServerTarget,
    check_option,
    check_workers,
    is_text,
)
from openenv_gym.providers.docker.admission import DEFAULT_AT_ONCE
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
from openenv_gym.providers.docker.warm import WarmPool
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
        warm: Containers to keep ready for each environment that was asked for once. One that was
            used is used again only where the manifest says ``resets_fully``. They are removed by
            `close`, or with this object.
        max_creates: How many containers this process creates at once.
        max_destroys: How many it removes at once; removing never waits for creating.
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
        warm: int = 0,
        max_creates: int = DEFAULT_AT_ONCE,
        max_destroys: int = DEFAULT_AT_ONCE,
        **sandbox: Any,
    ) -> None:
        check_option("image", image, "the name of an image", image is None or is_text(image))
        check_option("build", build, f"one of {', '.join(BUILD_CHOICES)}", build in BUILD_CHOICES)
        names = ["auto", *(each.value for each in Reach)]
        check_option("reach", reach, f"one of {', '.join(names)}", reach in names)
        check_option("warm", warm, "an integer of at least 0", _is_count(warm, 0))
        check_option(
            "max_creates", max_creates, "an integer of at least 1", _is_count(max_creates, 1)
        )
        check_option(
            "max_destroys", max_destroys, "an integer of at least 1", _is_count(max_destroys, 1)
        )
        self._workers = check_workers(workers)
        self._warm = warm
        self._max_creates = max_creates
        self._max_destroys = max_destroys
        self._image = image
        self._build = build
        self._reach = None if reach == "auto" else Reach(reach)
        self._sandbox = Sandbox.of(**sandbox)
        self._check_sandbox()
        self._pool = self._make_pool()

    def __repr__(self) -> str:
        return (
            f"DockerProvider(image={self._image!r}, build={self._build!r}, "
            f"reach={self._reach.value if self._reach else 'auto'!r}, workers={self._workers}, "
            f"warm={self._warm}, max_creates={self._max_creates}, "
            f"max_destroys={self._max_destroys}, sandbox={self._sandbox!r})"
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
        return self._launch(target) if self._pool is None else self._pool.take(target)

    def prepare(self, target: ServerTarget) -> None:
        """Begin to keep ``warm`` containers ready before the first one is asked for."""
        if self._pool is not None:
            self._pool.fill(target)

    def close(self) -> None:
        """Remove the containers that are kept ready. Those in use stay until they are stopped."""
        if self._pool is not None:
            self._pool.close()

    def _make_pool(self) -> WarmPool | None:
        if self._warm == 0:
            return None
        launch = weakref.WeakMethod(self._launch)  # so that the pool does not keep us

        def make(target: ServerTarget) -> DockerServer:
            method = launch()
            if method is None:
                raise errors.ServerStartError("The provider is gone.")
            return method(target)

        pool = WarmPool(self._warm, make)
        weakref.finalize(self, pool.close)
        return pool

    def __deepcopy__(self, memo: dict[int, Any]) -> DockerProvider:
        return self  # specs are copied; the containers that are kept ready are not

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._pool = self._make_pool()

    def _launch(self, target: ServerTarget) -> DockerServer:
        client = connect_daemon()
        wanted = self._image or target.image or target.package
        with translated(f"look for {wanted}", wanted):
            image = ensure_image(
                client, target.package, image=self._image or target.image, build=self._build
            )
            facts = daemon_facts(client)
        self._check_runtime(facts)
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
        network = self._sandbox.network
        if reach is not Reach.SOCKET and network is not None and network.mode == "egress":
            raise _no_egress("this Docker daemon, which cannot mount a directory of this machine,")
        start = functools.partial(
            DockerServer,
            client,
            target,
            image,
            limits,
            workers=self._workers,
            sandbox=self._sandbox,
            max_creates=self._max_creates,
            max_destroys=self._max_destroys,
        )
        try:
            return start(reach=reach)
        except MountError:
            if self._reach is not None or (network is not None and network.mode == "egress"):
                raise
            _log.info("The Docker daemon does not see this machine's files; using docker exec.")
            return start(reach=Reach.EXEC)

    def _check_runtime(self, facts: Mapping[str, Any]) -> None:
        runtimes = facts.get("Runtimes")  # which not every engine tells
        runtime = self._sandbox.runtime
        if runtime is not None and runtimes and runtime not in runtimes:
            raise errors.InvalidOptionError(
                f"runtime is {runtime!r:.80}, and this Docker daemon has {', '.join(runtimes)}.",
                field="runtime",
                hint="Name one of those, or add it to the daemon's daemon.json and restart it.",
            )

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

    def log(self, item: Item, lines: int) -> str:
        """Return the last lines that a container wrote.

        Raises:
            ProviderError: It is gone, or no daemon answers.
        """
        client = connect_daemon(sweeping=False)
        with translated(f"read the log of {item.name}", ""):
            data: bytes = client.containers.get(item.name).logs(tail=lines)
        return data.decode(errors="replace")

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
        if network is not None and network.mode == "egress" and self._reach is Reach.EXEC:
            raise _no_egress("reach='exec'")
        for mount in self._sandbox.mounts:
            if any(mount.target == own or mount.target.startswith(f"{own}/") for own in OCCUPIED):
                raise errors.InvalidOptionError(
                    f"target is {mount.target!r}, where the container has something of its own.",
                    field="target",
                    hint=f"Take a place that is not below {', '.join(OCCUPIED)}.",
                )


def _no_egress(what: str) -> errors.InvalidOptionError:
    return errors.InvalidOptionError(
        f"{what} cannot honour an egress list: the way out is a socket in a directory of this "
        "machine.",
        field="network",
        hint='Take network="none" or "open", or a daemon on this machine.',
    )


def _shares_files(client: Any, facts: Mapping[str, Any]) -> bool:
    """Tell whether a directory of this machine can be mounted, and a socket in it be used."""
    if not str(client.api.base_url).startswith("http+docker://"):
        return False  # over TCP or SSH: another machine, for all we know
    # The virtual machine of Docker Desktop mounts our files, but a socket there leads nowhere.
    return "Docker Desktop" not in str(facts.get("OperatingSystem"))


def _is_count(value: object, least: int) -> bool:
    return type(value) is int and value >= least
