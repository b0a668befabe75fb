"""One server in a pod: reached, watched, given back."""

from __future__ import annotations

import os
import threading
from enum import Enum

from openenv_gym import errors
from openenv_gym.client import Address
from openenv_gym.providers.base import GRACE_S, NEW_ONE
from openenv_gym.providers.kubernetes.cluster import Cluster
from openenv_gym.providers.kubernetes.fleet import Fleet, Place
from openenv_gym.providers.kubernetes.objects import PORT
from openenv_gym.providers.kubernetes.pods import Incarnation, Lost, loss_of
from openenv_gym.providers.kubernetes.reach import ForwardAddress, PodAddress, Reach, answers


__all__ = ["KubernetesServer"]


class _State(Enum):
    RUNNING = "running"
    STOPPED = "stopped"


class KubernetesServer:
    """A server in a pod of its own.

    Args:
        cluster: Where.
        fleet: The set of pods to which it belongs.
        reach: How it is reached; None finds out.
        start_timeout_s: How long it may take until it takes clients.

    Attributes:
        address: Where it is.
        token: Credential for it.

    Raises:
        ImageNotFoundError: There is no image.
        ServerOutOfMemoryError: It wanted too much memory.
        ServerStartError: It ended, or was not ready in time.
        OpenEnvGymError: The cluster refuses for another reason.
    """

    def __init__(
        self, cluster: Cluster, fleet: Fleet, reach: Reach | None, start_timeout_s: float
    ) -> None:
        self._owner_pid = os.getpid()
        # Reentrant: the garbage collector may run a finalizer, which stops, in any line of ours.
        self._lock = threading.RLock()
        self._cluster = cluster
        self._fleet = fleet
        self._state = _State.RUNNING
        self._last_log = ""
        self._lost: Lost | None = None
        self._one: Incarnation | None = None
        self._place: Place = fleet.take()
        self.token: str | None = self._place.token
        try:
            self._one = fleet.await_ready(self._place, start_timeout_s)
            self.address: Address = self._address(self._one, reach)
        except BaseException:
            self.stop(0.0)
            raise

    @property
    def pod(self) -> str:
        """Name of the pod."""
        return self._place.pod

    @property
    def node(self) -> str:
        """Name of the node on which it runs."""
        return self._one.node if self._one is not None else ""

    def _address(self, one: Incarnation, reach: Reach | None) -> Address:
        direct = PodAddress(one.address, PORT)
        if reach is None:
            inside = "KUBERNETES_SERVICE_HOST" in os.environ
            reach = Reach.ADDRESS if inside or answers(direct) else Reach.FORWARD
        if reach is Reach.ADDRESS:
            return direct
        return ForwardAddress(self._cluster, one.pod, PORT)

    def why_lost(self) -> errors.ConnectionLostError | None:
        """Tell why the server is gone, with its last lines; None while it runs."""
        name = f"The pod {self.pod} of {self._fleet.blueprint.image}"
        if self._state is _State.STOPPED or self._one is None:
            return errors.ServerDiedError(f"{name} was stopped.", hint=NEW_ONE)
        lost = self._lost = self._lost or self._look()
        if lost is None:
            return None
        data = {
            "log": self._last_log,
            "exit_code": lost.exit_code,
            "pod": self.pod,
            "node": self.node,
        }
        if lost.out_of_memory:
            return errors.ServerOutOfMemoryError(
                f"{name} {lost.text}.",
                hint="Give it more with resources=Resources(memory_bytes=...), or use fewer "
                "sub-environments.",
                data=data,
            )
        return errors.ServerDiedError(f"{name} {lost.text}.", hint=NEW_ONE, data=data)

    def _look(self) -> Lost | None:
        """Ask the cluster how it ended, and keep its last lines while they can be had."""
        assert self._one is not None
        try:
            pod = self._cluster.read("Pod", self.pod, quick=True)
        except errors.OpenEnvGymError:
            return None  # the cluster is in trouble, which says nothing about the server
        lost = loss_of(pod, self._one)
        # What a pod that is to end wrote goes with it, soon.
        ends = pod is not None and "deletionTimestamp" in pod["metadata"]
        if ends if lost is None else lost.readable:
            previous = lost is not None and lost.previous
            self._last_log = self._fleet.log_of(self.pod, previous=previous) or self._last_log
        return lost

    def log_tail(self) -> str:
        """Return the last lines that it wrote."""
        if self._state is _State.STOPPED:
            return self._last_log
        return self._fleet.log_of(self.pod)

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Give the pod back, which ends it. Safe to repeat, and in a forked child."""
        if os.getpid() != self._owner_pid:
            return
        with self._lock:
            if self._state is _State.STOPPED:
                return
            self._state = _State.STOPPED
        uid = self._one.uid if self._one is not None else None
        self._fleet.release(self._place, uid, grace_s)
