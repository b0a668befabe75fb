"""Servers in pods of a Kubernetes cluster."""

from __future__ import annotations

import ipaddress
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
from openenv_gym.providers.docker.images import image_name
from openenv_gym.providers.inventory import Item
from openenv_gym.providers.kubernetes.blueprint import Blueprint, resolve_peers
from openenv_gym.providers.kubernetes.cluster import Cluster, ClusterChoice, connect_cluster
from openenv_gym.providers.kubernetes.fleet import fleet_of
from openenv_gym.providers.kubernetes.reach import Reach
from openenv_gym.providers.kubernetes.removal import found, remove_set
from openenv_gym.providers.kubernetes.server import KubernetesServer
from openenv_gym.providers.sandbox import Network, Sandbox


__all__ = ["KubernetesProvider"]

_PULLS = ("IfNotPresent", "Always", "Never")
_MAX_S = 3600.0


class KubernetesProvider:
    """Starts each server in a pod of its own (docs/kubernetes.md).

    Pods that are alike belong to one StatefulSet, which is scaled as servers come and go and is
    deleted with the last of them, or when this process is gone.

    Args:
        image: Image to take in place of the environment's own.
        pull: When a node pulls it: ``"IfNotPresent"``, ``"Always"`` or ``"Never"``.
        namespace: Where everything is made; None is that of the context.
        context: Context of the kubeconfig; None is the current one.
        config_file: The kubeconfig; None is what ``KUBECONFIG`` says, ``~/.kube/config``, or, in a
            pod, its service account.
        reach: ``"address"`` goes to pods directly, ``"forward"`` through the API server;
            ``"auto"`` takes the first where it leads there.
        clients: Networks (CIDR) outside the cluster from which pods may be reached directly.
        drain_s: How long sessions may go on in a pod that was told to end.
        start_timeout_s: How long a pod may take until it takes clients.
        workers: Worker processes of each server, which share its sessions.
        sandbox: `Sandbox`'s keywords. It honours ``memory_bytes``, ``cpus``, ``gpus`` as a number,
            ``tmp_bytes``, ``network`` (where the cluster's enforces a NetworkPolicy), ``mounts``
            of PersistentVolumeClaims, ``environment``, and ``runtime`` as a RuntimeClass.

    Raises:
        InvalidOptionError: One of them is none of these, or cannot be honoured.
    """

    name = "kubernetes"
    isolates = True
    honours: ClassVar[frozenset[str]] = frozenset(
        {
            "memory_bytes",
            "cpus",
            "gpus",
            "tmp_bytes",
            "network",
            "mounts",
            "environment",
            "runtime",
        }
    )

    def __init__(
        self,
        *,
        image: str | None = None,
        pull: str = "IfNotPresent",
        namespace: str | None = None,
        context: str | None = None,
        config_file: str | None = None,
        reach: str = "auto",
        clients: Sequence[str] = (),
        drain_s: float = 10.0,
        start_timeout_s: float = 120.0,
        workers: int = 1,
        **sandbox: Any,
    ) -> None:
        for option, value in (
            ("image", image),
            ("namespace", namespace),
            ("context", context),
            ("config_file", config_file),
        ):
            good = value is None or is_text(value)
            check_option(option, value, "a text that is not empty", good)
        check_option("pull", pull, f"one of {', '.join(_PULLS)}", pull in _PULLS)
        names = ["auto", *(each.value for each in Reach)]
        check_option("reach", reach, f"one of {', '.join(names)}", reach in names)
        self._workers = check_workers(workers)
        self._image = image
        self._pull = pull
        self._choice = ClusterChoice(config_file, context, namespace)
        self._reach = None if reach == "auto" else Reach(reach)
        self._clients = _networks(clients)
        self._drain_s = _seconds("drain_s", drain_s)
        self._start_timeout_s = _seconds("start_timeout_s", start_timeout_s)
        self._sandbox = Sandbox.of(**sandbox)
        self._sandbox.refuse_unhonoured(self.name, self.honours)
        # Once, because names lead elsewhere every minute, and pods that differ share no set.
        self._egress = resolve_peers(self._sandbox.network or Network.none())
        # What cannot be said to a cluster is refused now, and not when the first server starts.
        self._blueprint(ServerTarget("gymnasium"))

    def start(self, target: ServerTarget) -> RunningServer:
        """Start a server; see `Provider`.

        Raises:
            ProviderUnavailableError: The client is not installed, or no API server answers.
            ProviderPermissionError: It does not let this user do so.
            IsolationError: Sessions are to be kept apart within a server.
            ImageNotFoundError: Nodes have no image and cannot pull it.
            ServerOutOfMemoryError: The server wanted too much memory before it was ready.
            ServerStartError: It ended, or was not ready in time.
        """
        refuse_isolation(target, self.name)
        cluster = self._cluster()
        fleet = fleet_of(cluster, self._blueprint(target))
        return KubernetesServer(cluster, fleet, self._reach, self._start_timeout_s)

    def inventory(self) -> list[Item]:
        """Return the sets of pods that this library has made in the namespace, for whomever.

        Raises:
            ProviderUnavailableError: The client is not installed, or no API server answers.
            ProviderPermissionError: It does not let this user do so.
        """
        return found(self._cluster())

    def remove(self, item: Item) -> None:
        """Delete a set of pods with all that belongs to it.

        Raises:
            ProviderError: The cluster refuses.
        """
        namespace, _, name = item.name.partition("/")
        choice = self._choice
        cluster = connect_cluster(ClusterChoice.of(choice.config_file, choice.context, namespace))
        remove_set(cluster, name)

    def _cluster(self) -> Cluster:
        choice = self._choice
        return connect_cluster(
            ClusterChoice.of(choice.config_file, choice.context, choice.namespace)
        )

    def _blueprint(self, target: ServerTarget) -> Blueprint:
        return Blueprint.of(
            target,
            image_name(target.package, self._image or target.image),
            self._sandbox,
            egress=self._egress,
            pull=self._pull,
            workers=self._workers,
            clients=self._clients,
            drain_s=self._drain_s,
        )

    def __repr__(self) -> str:
        return (
            f"KubernetesProvider(image={self._image!r}, namespace={self._choice.namespace!r}, "
            f"reach={self._reach.value if self._reach else 'auto'!r}, workers={self._workers}, "
            f"{self._sandbox!r})"
        )


def _seconds(name: str, value: object) -> float:
    good = type(value) in (int, float) and 0 < float(str(value)) <= _MAX_S
    check_option(name, value, f"a number of seconds, above 0 and at most {_MAX_S:g}", good)
    assert isinstance(value, (int, float))
    return float(value) if math.isfinite(value) else _MAX_S


def _networks(clients: object) -> tuple[str, ...]:
    expected = 'a list of networks, such as ["10.0.0.0/8"]'
    check_option("clients", clients, expected, isinstance(clients, (list, tuple)))
    assert isinstance(clients, (list, tuple))
    try:
        return tuple(str(ipaddress.ip_network(each)) for each in clients)
    except (ValueError, TypeError) as error:
        raise errors.InvalidOptionError(
            f"clients={clients!r:.80}: expected {expected}: {error}.", field="clients"
        ) from error
