"""Servers as tasks of services of Docker Swarm."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar

from openenv_gym import errors
from openenv_gym.providers.base import (
    RunningServer,
    ServerTarget,
    check_option,
    check_workers,
    is_text,
    refuse_isolation,
)
from openenv_gym.providers.docker.daemon import connect_daemon, daemon_address, translated
from openenv_gym.providers.docker.hardening import ContainerLimits
from openenv_gym.providers.docker.images import BUILD_CHOICES, ensure_image
from openenv_gym.providers.inventory import Item
from openenv_gym.providers.sandbox import Sandbox
from openenv_gym.providers.swarm.leftovers import found, sweep
from openenv_gym.providers.swarm.server import SwarmServer
from openenv_gym.providers.swarm.service import join, remove_service
from openenv_gym.providers.swarm.spec import Plan
from openenv_gym.providers.swarm.tasks import Node, active_nodes


__all__ = ["SwarmProvider"]

_ENVS_STEP = 16  # servers that hold nearly as many sub-environments share a service
_DRAIN_S = 10.0
_MAX_DRAIN_S = 3600.0


class SwarmProvider:
    """Starts each server as a task of a service, anywhere in the swarm (docs/swarm.md).

    Servers of this process that are alike share a service, which has as many replicas as there
    are servers. Each session has the address of its own task, and keeps to it.

    The manager is the daemon that ``DOCKER_HOST`` or the `docker` command's context names. What
    runs in a task reaches the network of its node: Swarm can take it away only together with the
    way in. An environment that runs untrusted code therefore needs ``network="open"``, and gets a
    service, and a token, for each server.

    Args:
        image: Image to take in place of the environment's own, as it is: every node must have it,
            or be able to pull it.
        build: What to do where the environment's own image is missing on the manager; see
            `DockerProvider`.
        constraints: Which nodes may run it, in Swarm's words: ``"node.labels.kind==big"``.
        drain_s: How long a server that Swarm stops waits for its sessions, in seconds.
        workers: Worker processes of each server, which share its sessions.
        sandbox: `Sandbox`'s keywords. It honours ``memory_bytes``, ``cpus`` (for both, a node must
            have as much left), ``pids``, ``tmp_bytes``, ``files``, ``log_bytes``, ``environment``,
            ``network="open"``, and ``mounts`` of named volumes.

    Raises:
        InvalidOptionError: One of them does not hold, or cannot be honoured.
    """

    name = "swarm"
    isolates = True
    honours: ClassVar[frozenset[str]] = frozenset(
        {"memory_bytes", "cpus", "pids", "tmp_bytes", "files", "log_bytes"}
        | {"network", "mounts", "environment"}
    )

    def __init__(
        self,
        *,
        image: str | None = None,
        build: str = "auto",
        constraints: Sequence[str] = (),
        drain_s: float = _DRAIN_S,
        workers: int = 1,
        **sandbox: Any,
    ) -> None:
        check_option("image", image, "the name of an image", image is None or is_text(image))
        check_option("build", build, f"one of {', '.join(BUILD_CHOICES)}", build in BUILD_CHOICES)
        # A list and nothing that could be walked through only once, or in any order.
        good = isinstance(constraints, (list, tuple)) and all(map(is_text, constraints))
        check_option("constraints", constraints, 'a list such as ["node.role==worker"]', good)
        check_option("drain_s", drain_s, f"seconds from 0 to {_MAX_DRAIN_S:g}", _is_drain(drain_s))
        self._workers = check_workers(workers)
        self._image = image
        self._build = build
        self._constraints = tuple(constraints)
        self._drain_s = float(drain_s)
        self._sandbox = Sandbox.of(**sandbox)
        self._sandbox.refuse_unhonoured(self.name, self.honours)
        _check_sandbox(self._sandbox)

    def __repr__(self) -> str:
        return (
            f"SwarmProvider(image={self._image!r}, build={self._build!r}, "
            f"constraints={self._constraints!r}, drain_s={self._drain_s:g}, "
            f"workers={self._workers}, sandbox={self._sandbox!r})"
        )

    def start(self, target: ServerTarget) -> RunningServer:
        """Start a server; see `Provider`. It serves when this returns.

        Raises:
            ProviderUnavailableError: No daemon answers, or it manages no swarm.
            ProviderPermissionError: This user may not use it.
            IsolationError: The environment runs untrusted code, and nobody said that it may reach
                the network; or sessions are to be kept apart on one server.
            ImageError: There is no image, on the manager or on a node.
            ServerStartError: The manager refuses, no node has room, or the server ends at once.
            ServerOutOfMemoryError: It wants more memory than it may have.
        """
        refuse_isolation(target, self.name)
        self._refuse_untrusted(target)
        client = connect_daemon()
        wanted = self._image or target.image or target.package
        with translated(f"look for {wanted}", wanted):
            _check_manager(client.info().get("Swarm") or {})
            image = self._image or ensure_image(
                client, target.package, image=target.image, build=self._build
            )
            nodes = active_nodes(client, daemon_address())
        sweep(client)
        plan = Plan(
            target=dataclasses.replace(target, num_servers=1, num_envs=1),
            image=image,
            limits=self._limits(target, nodes),
            sandbox=self._sandbox,
            workers=self._workers,
            drain_s=self._drain_s,
            constraints=self._constraints,
        )
        service = join(client, plan, shared=not target.untrusted)
        try:
            service.ensure(1 if target.untrusted else target.num_servers)
        except BaseException:
            service.leave()
            raise
        return SwarmServer(client, service)

    def inventory(self) -> list[Item]:
        """Return the services that this library has made in the swarm, for whomever.

        Raises:
            ProviderUnavailableError: No daemon answers, or it is no manager of its swarm.
            ProviderPermissionError: This user may not use it.
        """
        client = connect_daemon(sweeping=False)
        with translated("list services", ""):
            swarm = client.info().get("Swarm") or {}
            if swarm.get("LocalNodeState") in (None, "", "inactive"):
                return []
            _check_manager(swarm)
            return found(client)

    def remove(self, item: Item) -> None:
        """Remove a service with its tasks and its secret.

        Raises:
            ProviderError: The manager refuses.
        """
        client = connect_daemon(sweeping=False)
        with translated(f"remove the service {item.name}", ""):
            if not remove_service(client, item.name):
                raise errors.ProviderError(f"The manager does not remove {item.name}.")

    def _limits(self, target: ServerTarget, nodes: Sequence[Node]) -> ContainerLimits:
        """Return bounds that fit on the smallest node, with its share of the servers."""
        return ContainerLimits.within(
            self._sandbox.resources,
            num_servers=math.ceil(target.num_servers / max(len(nodes), 1)),
            num_envs=math.ceil(target.num_envs / _ENVS_STEP) * _ENVS_STEP,
            workers=self._workers,
            cores=min((node.cpus for node in nodes), default=None),
            machine_bytes=min((node.memory_bytes for node in nodes), default=None),
        )

    def _refuse_untrusted(self, target: ServerTarget) -> None:
        if target.untrusted and self._sandbox.network is None:
            raise errors.IsolationError(
                f"{target.package} runs code that nobody vouches for, and a task of Swarm reaches "
                "the network of its node.",
                hint='Take provider="docker", which gives it none, or '
                'SwarmProvider(network="open") if that is meant.',
            )


def _check_manager(swarm: Any) -> None:
    """Check that the daemon manages a swarm.

    Raises:
        ProviderUnavailableError: It does not.
    """
    if swarm.get("ControlAvailable"):
        return
    state = swarm.get("LocalNodeState") or "inactive"
    what = "is no manager of its swarm" if state == "active" else f"is in no swarm ({state})"
    raise errors.ProviderUnavailableError(
        f"The Docker daemon at {daemon_address()} {what}.",
        hint="Set DOCKER_HOST to a manager, or make a swarm of one node: docker swarm init "
        "--advertise-addr 127.0.0.1",
        data={"host": daemon_address()},
    )


def _check_sandbox(sandbox: Sandbox) -> None:
    """Refuse what Swarm cannot do although it can do something of the same name.

    Raises:
        InvalidOptionError: Something is.
    """
    if sandbox.network is not None and sandbox.network.mode != "open":
        raise errors.InvalidOptionError(
            f"provider='swarm' cannot honour network={sandbox.network.mode!r}: without a network "
            "nobody would reach the server, and Swarm has no lists of hosts.",
            field="network",
            hint='Pass network="open", or take docker or kubernetes.',
        )
    for mount in sandbox.mounts:
        if not mount.is_volume:
            raise errors.InvalidOptionError(
                f"provider='swarm' cannot honour mounts={mount.source!r:.80}: a directory of this "
                "machine is not on the nodes.",
                field="mounts",
                hint="Take a named volume, which every node has or makes.",
            )


def _is_drain(value: object) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and 0 <= value <= _MAX_DRAIN_S  # type: ignore[operator]  # a number
