"""One StatefulSet with what belongs to it: made, scaled, and deleted when nobody uses it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sys
import threading
import time
import uuid
from typing import Any

from openenv_gym import errors
from openenv_gym.providers.base import tail_of
from openenv_gym.providers.docker.contexts import image_stem
from openenv_gym.providers.guardian import guardian
from openenv_gym.providers.kubernetes import objects
from openenv_gym.providers.kubernetes.blueprint import Blueprint
from openenv_gym.providers.kubernetes.cluster import Cluster
from openenv_gym.providers.kubernetes.lease import LEASE, Lease, lease_text
from openenv_gym.providers.kubernetes.pods import (
    Incarnation,
    Lost,
    ready,
    refuse_start,
    trouble_of,
)
from openenv_gym.providers.kubernetes.removal import remove_set, sweep
from openenv_gym.providers.owner import Owner


__all__ = ["Fleet", "Place", "fleet_of"]

LOG_LINES = 40
_TOKENS = 16  # a Secret that grows reaches nodes with delay, so it begins with some to spare
_POLL_S = (0.05, 0.1, 0.2, 0.3)


class Place:
    """A pod of a set, by its number, that one server has.

    Attributes:
        set_name: Name of the StatefulSet.
        ordinal: Its number there.
        token: Credential of its server.
    """

    def __init__(self, set_name: str, ordinal: int, token: str) -> None:
        self.set_name = set_name
        self.ordinal = ordinal
        self.token = token

    @property
    def pod(self) -> str:
        """Name of the pod."""
        return f"{self.set_name}-{self.ordinal}"


class Fleet:
    """Pods that are alike, in one StatefulSet that has as many as are used.

    The StatefulSet owns all else (``ownerReferences``), so that its deletion is that of everything,
    whoever does it. It is watched by the guardian before it is made.

    Args:
        cluster: Where.
        blueprint: What pods are.
    """

    def __init__(self, cluster: Cluster, blueprint: Blueprint) -> None:
        self._cluster = cluster
        self.blueprint = blueprint
        self._owner_pid = os.getpid()
        # Reentrant: the garbage collector may run a finalizer, which stops, in any line of ours.
        self._lock = threading.RLock()
        self._name = ""
        self._replicas = 0
        self._tokens: list[str] = []
        self._used: set[int] = set()
        self._spent: dict[int, set[str]] = {}  # by number, pods that had a server already
        self._lease: Lease | None = None

    def take(self) -> Place:
        """Return a place that nobody has, and see to it that there is a pod.

        Raises:
            OpenEnvGymError: The cluster refuses.
        """
        with self._lock:
            ordinal = next(i for i in range(len(self._used) + 1) if i not in self._used)
            if not self._used:
                self._make()
            self._used.add(ordinal)
            try:
                self._scale()
            except BaseException:
                self._let_go(ordinal, None, 0.0)
                raise
            return Place(self._name, ordinal, self._tokens[ordinal])

    def await_ready(self, place: Place, timeout_s: float) -> Incarnation:
        """Wait until the server of a place takes clients.

        Raises:
            ImageNotFoundError: There is no image of it.
            ServerOutOfMemoryError: It wanted too much memory.
            ServerStartError: It ended, or is not ready in time.
        """
        end_s = time.monotonic() + timeout_s
        pause = 0
        while True:
            pod = self._cluster.read("Pod", place.pod)
            if pod is not None and pod["metadata"]["uid"] not in self._spent.get(place.ordinal, ()):
                if (one := ready(pod)) is not None:
                    return one
                if "deletionTimestamp" not in pod["metadata"]:
                    self._raise_refusal(pod, place)
            if time.monotonic() > end_s:
                raise errors.ServerStartError(
                    f"The pod {place.pod} of {self.blueprint.image} was not ready in "
                    f"{timeout_s:g} s: {trouble_of(pod) if pod else self._why_no_pod(place)}.",
                    hint="Where the cluster has no room, ask for less with resources=, or wait "
                    "longer with start_timeout_s=.",
                    data={"log": self.log_of(place.pod), "pod": place.pod},
                )
            time.sleep(_POLL_S[min(pause, len(_POLL_S) - 1)])
            pause += 1

    def log_of(self, pod: str, *, previous: bool = False) -> str:
        """Return the last lines that a pod wrote."""
        return tail_of(self._cluster.pod_log(pod, lines=LOG_LINES, previous=previous))

    def release(self, place: Place, uid: str | None, grace_s: float) -> None:
        """Give a place back; its pod ends, and is never used again.

        Args:
            place: The place.
            uid: Which pod was used; None where none was.
            grace_s: How long it may take to end.
        """
        if os.getpid() != self._owner_pid:
            return
        with self._lock:
            if place.set_name == self._name and place.ordinal in self._used:
                self._let_go(place.ordinal, uid, grace_s)

    # -- the set ------------------------------------------------------------------------------

    def _make(self) -> None:
        cluster, blueprint = self._cluster, self.blueprint
        with contextlib.suppress(errors.OpenEnvGymError):
            sweep(cluster)
        name = f"openenv-{image_stem(blueprint.package)[:24].strip('-')}-{uuid.uuid4().hex[:8]}"
        self._name, self._replicas, self._spent = name, 0, {}
        self._tokens = [secrets.token_urlsafe(32) for _ in range(_TOKENS)]
        guardian.watch(self._watched)
        who = str(Owner.current())
        try:
            body = objects.stateful_set(name, blueprint, who, 0)
            body["metadata"]["annotations"][LEASE] = lease_text()
            root = cluster.create("StatefulSet", body)
            self._lease = Lease(cluster, name)
            # Ahead of the first pod, which must not have a moment without its policy.
            cluster.create("NetworkPolicy", objects.network_policy(name, blueprint, who, root))
            cluster.create("Secret", objects.token_secret(name, blueprint, who, self._tokens, root))
            cluster.create("Service", objects.service(name, blueprint, who, root))
            cluster.create(
                "PodDisruptionBudget",
                objects.disruption_budget(
                    name,
                    blueprint,
                    who,
                    root,
                    api_version=cluster.api_version("PodDisruptionBudget"),
                ),
            )
        except BaseException:
            self._remove(0.0)
            raise

    @property
    def _watched(self) -> str:
        choice = self._cluster.choice
        arguments = [choice.config_file, choice.context, choice.namespace, self._name]
        return f"command:{json.dumps([sys.executable, *_removal_command(), json.dumps(arguments)])}"

    def _scale(self) -> None:
        """Have as many pods as the highest number that is used says."""
        wanted = max(self._used, default=-1) + 1
        if wanted > len(self._tokens):
            more = [secrets.token_urlsafe(32) for _ in range(wanted)]
            self._tokens += more
            data = objects.token_secret(
                self._name, self.blueprint, str(Owner.current()), self._tokens
            )["data"]
            self._cluster.patch("Secret", self._name, {"data": data})
        if wanted != self._replicas:
            self._cluster.patch("StatefulSet", self._name, {"spec": {"replicas": wanted}})
            self._replicas = wanted

    def _let_go(self, ordinal: int, uid: str | None, grace_s: float) -> None:
        self._used.discard(ordinal)
        if uid is not None:
            self._spent.setdefault(ordinal, set()).add(uid)
        if not self._used:
            self._remove(grace_s)
            return
        with contextlib.suppress(errors.OpenEnvGymError):  # the guardian comes after us
            self._scale()
            # Where its number is below another one that is used, a fresh one takes its place.
            self._cluster.delete("Pod", f"{self._name}-{ordinal}", grace_s=grace_s, uid=uid)

    def _remove(self, grace_s: float) -> None:
        if self._lease is not None:
            self._lease.end()
            self._lease = None
        with contextlib.suppress(errors.OpenEnvGymError):
            remove_set(self._cluster, self._name, grace_s=grace_s)
            guardian.forget(self._watched)

    def _raise_refusal(self, pod: dict[str, Any], place: Place) -> None:
        found = refuse_start(pod, self.blueprint.image)
        if found is None:
            return
        if not isinstance(found, Lost):
            raise found
        data = {
            "log": self.log_of(place.pod, previous=found.previous),
            "exit_code": found.exit_code,
            "pod": place.pod,
        }
        text = f"The server in the pod {place.pod} of {self.blueprint.image} {found.text}"
        if found.out_of_memory:
            raise errors.ServerOutOfMemoryError(f"{text}, before it was ready.", data=data)
        raise errors.ServerStartError(f"{text} before it was ready.", data=data)

    def _why_no_pod(self, place: Place) -> str:
        """Say what the cluster said about a pod that it did not make: a quota, a policy."""
        with contextlib.suppress(errors.OpenEnvGymError):
            events = self._cluster.find("Event", "", f"involvedObject.name={place.set_name}")
            said = [str(each.get("message", "")).strip().rstrip(".") for each in events]
            if said:
                return said[-1]
        return trouble_of(None)


def _removal_command() -> list[str]:
    from openenv_gym.server.process import bootstrap

    return ["-c", bootstrap("openenv_gym.providers.kubernetes.removal")]


_fleets: dict[tuple[int, int, Blueprint], Fleet] = {}
_lock = threading.Lock()


def fleet_of(cluster: Cluster, blueprint: Blueprint) -> Fleet:
    """Return the pods of this process that are alike."""
    with _lock:
        key = os.getpid(), id(cluster), blueprint  # a cluster stays for as long as its process
        if key not in _fleets:
            _fleets[key] = Fleet(cluster, blueprint)
        return _fleets[key]


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # another thread may have held it
    _fleets.clear()


os.register_at_fork(after_in_child=_after_fork)
