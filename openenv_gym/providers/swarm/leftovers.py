"""Services and secrets of this library, whoever made them: for `ps`, `clean`, and a new owner.

A guardian removes them when their owner dies; this is for what is left when it was killed as well.
"""

from __future__ import annotations

import contextlib
from typing import Any

from openenv_gym.providers.docker.daemon import OWNER_LABEL
from openenv_gym.providers.inventory import Item
from openenv_gym.providers.owner import Owner
from openenv_gym.providers.swarm.service import remove_service


__all__ = ["found", "sweep"]

_FILTERS = {"label": OWNER_LABEL}


def found(client: Any) -> list[Item]:
    """Return the services, and the secrets whose service is not there.

    Args:
        client: Client of a manager.
    """
    items: dict[str, Item] = {}
    for kind, facts in (
        *(("service", facts) for facts in client.api.services(filters=_FILTERS)),
        *(("secret", facts) for facts in client.api.secrets(filters=_FILTERS)),
    ):
        spec = facts["Spec"]
        owner = Owner.parse(str(spec["Labels"].get(OWNER_LABEL, "")))
        items.setdefault(spec["Name"], Item("swarm", kind, spec["Name"], owner, _detail(spec)))
    return list(items.values())


def _detail(spec: dict[str, Any]) -> str:
    if "TaskTemplate" not in spec:
        return ""
    image = spec["TaskTemplate"].get("ContainerSpec", {}).get("Image", "")
    replicas = (spec.get("Mode", {}).get("Replicated") or {}).get("Replicas", 0)
    return f"{image}, {replicas} task{'s' * (replicas != 1)}"


def sweep(client: Any) -> None:
    """Remove what belonged to processes of this machine that are gone; once for each client."""
    if hasattr(client, "openenv_swept"):
        return
    client.openenv_swept = True
    with contextlib.suppress(Exception):
        for item in found(client):
            if item.in_use is False:
                remove_service(client, item.name)
