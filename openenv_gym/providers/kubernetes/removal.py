"""Sets of pods, whoever made them, and deleting one with all that belongs to it.

Its owner does so, or the guardian, `clean`, or the next owner.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from typing import Any

from openenv_gym import errors
from openenv_gym.providers.inventory import Item
from openenv_gym.providers.kubernetes.cluster import Cluster, ClusterChoice
from openenv_gym.providers.kubernetes.lease import lease_until
from openenv_gym.providers.kubernetes.objects import OWNER
from openenv_gym.providers.owner import Owner


__all__ = ["found", "main", "remove_set", "sweep"]

_TRIES = 5
_PAUSE_S = 1.0


def remove_set(cluster: Cluster, name: str, *, grace_s: float = 0.0) -> None:
    """Delete a StatefulSet and all that it owns; what is gone already is fine.

    Args:
        cluster: Where it is.
        name: Its name.
        grace_s: How long its pods may take to end, at least a second.

    Raises:
        OpenEnvGymError: The cluster refuses, or does not answer.
    """
    cluster.delete("StatefulSet", name)
    selector = f"app.kubernetes.io/instance={name}"
    # The cluster does so by itself, but with the time that a drain may take.
    for pod in cluster.find("Pod", selector):
        cluster.delete("Pod", pod["metadata"]["name"], grace_s=grace_s)
    # These have no owner where it was gone before they were made.
    for kind in ("NetworkPolicy", "Secret", "Service", "PodDisruptionBudget"):
        cluster.delete(kind, name)


def found(cluster: Cluster) -> list[Item]:
    """Return the sets that this library has made in a namespace, for whomever.

    Raises:
        OpenEnvGymError: They cannot be had.
    """
    return [_item(cluster, made) for made in cluster.find("StatefulSet")]


def _item(cluster: Cluster, made: dict[str, Any]) -> Item:
    facts = made["metadata"]
    count = made["spec"].get("replicas", 0)
    package = facts["labels"].get("openenv.environment", "")
    return Item(
        "kubernetes",
        "statefulset",
        f"{cluster.namespace}/{facts['name']}",
        Owner.parse(str((facts.get("annotations") or {}).get(OWNER, ""))),
        f"{package}, {count} pod{'s' * (count != 1)}",
        lease_until(made),
    )


def sweep(cluster: Cluster) -> list[str]:
    """Delete sets whose owner is gone: of this machine, or with a lease that has run out.

    A guardian does it at once; this is for what is left when it was killed as well.

    Returns:
        Names of the sets.

    Raises:
        OpenEnvGymError: They cannot be had.
    """
    removed = []
    for item in found(cluster):
        if item.in_use is False:
            name = item.name.partition("/")[2]
            with contextlib.suppress(errors.OpenEnvGymError):
                remove_set(cluster, name)
                removed.append(name)
    return removed


def main() -> int:
    """Delete what a process left behind that is gone: its guardian runs this.

    The argument is a JSON array: kubeconfig, context, namespace, name.
    """
    config_file, context, namespace, name = json.loads(sys.argv[1])
    for attempt in range(_TRIES):
        try:
            cluster = Cluster(ClusterChoice(config_file, context, namespace))
            remove_set(cluster, name)
            # Once more: a request of its owner may have been under way.
            time.sleep(_PAUSE_S)
            remove_set(cluster, name)
            return 0
        except errors.OpenEnvGymError as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            time.sleep(_PAUSE_S * 2**attempt)
    return 1
