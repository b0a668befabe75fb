"""The objects of one set of pods, as the API server takes them. Pure: nothing is asked here.

What each line is against is in docs/kubernetes.md. The pod is what the Pod Security Standards call
restricted.
"""

from __future__ import annotations

import base64
import ipaddress
import re
import secrets
from collections.abc import Sequence
from typing import Any

from openenv_gym._version import __version__
from openenv_gym.protocol.limits import SUBPROTOCOL
from openenv_gym.providers.kubernetes.blueprint import Blueprint, Peer


__all__ = [
    "OWNER",
    "PORT",
    "TOKEN_FILE",
    "disruption_budget",
    "labels",
    "metadata",
    "network_policy",
    "pod_spec",
    "probe_command",
    "service",
    "stateful_set",
    "token_secret",
]

PORT = 8000
TOKEN_FILE = "/run/openenv/token"

OWNER = "openenv.owner"
"""Annotation: which process made it."""

_MANAGER = "openenv-gym"
_POD_NAME = "OPENENV_POD"
_START_TRIES = 600  # one second each; whoever waits gives up before
_PROBE_S = 5
_USERS = range(20_000, 60_000)
_EPHEMERAL_BYTES = 256 << 20  # the container's log: its root is read-only, and /tmp is memory

# One pod is one life of a server. What Kubernetes starts in place of a server that died would
# answer at its address, where sessions are looked for that it never had; and in its /tmp. So it
# only waits, with what is known of the first one's end, until the pod is replaced.
_ONCE = (
    "set -C; if true 2> /dev/null > /tmp/.openenv-started; "
    'then exec python -m openenv_gym.server "$@"; '
    "else trap 'exit 0' TERM; sleep 2147483647 & wait; fi"
)

# Ready is whose server makes the handshake of the protocol (docs/protocol.md), with the token that
# clients have: more than an open port, and no session. In an image of whatever version, and in
# milliseconds, hence the standard library alone.
_PROBE = f"""
import socket, sys
token = open(sys.argv[2]).read().strip()
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), {_PROBE_S}) as sock:
    sock.sendall(
        b"GET /ws HTTP/1.1\\r\\nHost: localhost\\r\\nUpgrade: websocket\\r\\n"
        b"Connection: Upgrade\\r\\nSec-WebSocket-Version: 13\\r\\n"
        b"Sec-WebSocket-Key: b3BlbmVudi1neW1wcm9iZQ==\\r\\n"
        b"Sec-WebSocket-Protocol: {SUBPROTOCOL}\\r\\n"
        b"Authorization: Bearer %s\\r\\n\\r\\n" % token.encode()
    )
    answer = sock.recv(4096)
if not answer.startswith(b"HTTP/1.1 101 ") or b"{SUBPROTOCOL}" not in answer:
    sys.exit(f"refused: {{answer!r}}")
""".strip()


def labels(name: str, package: str) -> dict[str, str]:
    """Return the labels of everything that belongs to a set."""
    return {
        "app.kubernetes.io/managed-by": _MANAGER,
        "app.kubernetes.io/name": _MANAGER,
        "app.kubernetes.io/instance": name,
        "openenv.environment": re.sub(r"[^A-Za-z0-9_.-]+", "-", package)[:63].strip("-_."),
        "openenv.version": __version__,
    }


def metadata(
    name: str, blueprint: Blueprint, owner: str, root: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the metadata of an object.

    Args:
        name: Its name.
        blueprint: What it is of.
        owner: Which process makes it.
        root: The StatefulSet with which it ends; None for that itself.
    """
    data: dict[str, Any] = {
        "name": name,
        "labels": labels(name, blueprint.package),
        "annotations": {OWNER: owner},
    }
    if root is not None:
        data["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "name": root["metadata"]["name"],
                "uid": root["metadata"]["uid"],
            }
        ]
    return data


def stateful_set(name: str, blueprint: Blueprint, owner: str, replicas: int) -> dict[str, Any]:
    """Return the StatefulSet: pods with names that stay, all started at once."""
    chosen = {"app.kubernetes.io/instance": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(name, blueprint, owner),
        "spec": {
            "serviceName": name,
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "revisionHistoryLimit": 1,
            "selector": {"matchLabels": chosen},
            "template": {
                "metadata": {
                    "labels": labels(name, blueprint.package),
                    "annotations": {
                        OWNER: owner,
                        # The autoscaler of a cluster would move a pod to save a node.
                        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
                    },
                },
                "spec": pod_spec(name, blueprint),
            },
        },
    }


def pod_spec(name: str, blueprint: Blueprint) -> dict[str, Any]:
    """Return what a pod is: as little as a server needs."""
    user = secrets.choice(_USERS)
    spec: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": blueprint.grace_s,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": user,
            "runAsGroup": user,
            "fsGroup": user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(blueprint)],
        "volumes": [
            {
                "name": "tmp",
                "emptyDir": {"medium": "Memory", "sizeLimit": str(blueprint.tmp_bytes)},
            },
            {"name": "token", "secret": {"secretName": name, "defaultMode": 0o440}},
            *(
                {
                    "name": f"mount-{number}",
                    "persistentVolumeClaim": {
                        "claimName": mount.source,
                        "readOnly": mount.read_only,
                    },
                }
                for number, mount in enumerate(blueprint.mounts)
            ),
        ],
    }
    if blueprint.network.mode != "open":
        # No name server: what may be reached by name stands here.
        spec["dnsPolicy"] = "None"
        spec["dnsConfig"] = {"nameservers": ["127.0.0.1"]}
        aliases = [
            {"ip": address, "hostnames": [peer.name]}
            for peer in blueprint.egress
            if peer.name is not None
            for address in peer.addresses
        ]
        if aliases:
            spec["hostAliases"] = aliases
    if blueprint.runtime is not None:
        spec["runtimeClassName"] = blueprint.runtime
    return spec


def _container(blueprint: Blueprint) -> dict[str, Any]:
    # As much as it asks for is what it may have: then no neighbour's use decides who is evicted.
    bounds: dict[str, str] = {
        "memory": str(blueprint.memory_bytes),
        "cpu": f"{round(blueprint.cpus * 1000)}m",
        "ephemeral-storage": str(_EPHEMERAL_BYTES),
    }
    if blueprint.gpus:
        bounds["nvidia.com/gpu"] = str(blueprint.gpus)
    variables = {
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "HOME": "/tmp",
        **dict(blueprint.environment),
    }
    ask = {"exec": {"command": probe_command()}, "timeoutSeconds": _PROBE_S}
    return {
        "name": "server",
        "image": blueprint.image,
        "imagePullPolicy": blueprint.pull,
        "command": ["sh", "-c", _ONCE, "server"],
        "args": [
            blueprint.package,
            "--confine",
            *("--host", "0.0.0.0", "--port", str(PORT)),
            *("--token-file", TOKEN_FILE),
            *("--drain-s", f"{blueprint.drain_s:g}"),
            *blueprint.arguments,
        ],
        "env": [
            {"name": _POD_NAME, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            *({"name": key, "value": value} for key, value in variables.items()),
        ],
        "ports": [{"name": "openenv", "containerPort": PORT}],
        "resources": {"limits": bounds, "requests": dict(bounds)},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "privileged": False,
            "readOnlyRootFilesystem": True,
        },
        "startupProbe": {**ask, "periodSeconds": 1, "failureThreshold": _START_TRIES},
        "readinessProbe": {**ask, "periodSeconds": 10, "failureThreshold": 3},
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},
            # Only its own token: those of other pods of the set are in the same Secret.
            {
                "name": "token",
                "mountPath": TOKEN_FILE,
                "subPathExpr": f"$({_POD_NAME})",
                "readOnly": True,
            },
            *(
                {
                    "name": f"mount-{number}",
                    "mountPath": mount.target,
                    "readOnly": mount.read_only,
                }
                for number, mount in enumerate(blueprint.mounts)
            ),
        ],
    }


def probe_command(port: int = PORT, token_file: str = TOKEN_FILE) -> list[str]:
    """Return the command that tells whether a server on the same machine takes clients."""
    return ["python", "-I", "-S", "-c", _PROBE, str(port), token_file]


def service(
    name: str, blueprint: Blueprint, owner: str, root: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the headless Service, by which each pod has a name in the cluster's DNS."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name, blueprint, owner, root),
        "spec": {
            "clusterIP": "None",
            # A pod that drains is not ready, and its sessions may still have to be resumed.
            "publishNotReadyAddresses": True,
            "selector": {"app.kubernetes.io/instance": name},
            "ports": [{"name": "openenv", "port": PORT, "targetPort": PORT}],
        },
    }


def token_secret(
    name: str,
    blueprint: Blueprint,
    owner: str,
    tokens: Sequence[str],
    root: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the Secret with the tokens of the pods, each under the name of its pod."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(name, blueprint, owner, root),
        "type": "Opaque",
        "data": {
            f"{name}-{ordinal}": base64.b64encode(token.encode()).decode()
            for ordinal, token in enumerate(tokens)
        },
    }


def network_policy(
    name: str, blueprint: Blueprint, owner: str, root: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the NetworkPolicy: nothing but clients in, nothing but the allow-list out.

    A node may always reach its own pods, and so may what comes through the API server's port
    forwarding.
    """
    # Other environments are none of its clients.
    neighbours = {"key": "app.kubernetes.io/managed-by", "operator": "NotIn", "values": [_MANAGER]}
    sources: list[dict[str, Any]] = [
        {"podSelector": {"matchExpressions": [neighbours]}},
        *({"ipBlock": {"cidr": cidr}} for cidr in blueprint.clients),
    ]
    egress: list[dict[str, Any]] = [_rule(peer) for peer in blueprint.egress]
    if blueprint.network.mode == "open":
        egress = [{}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(name, blueprint, owner, root),
        "spec": {
            "podSelector": {"matchLabels": {"app.kubernetes.io/instance": name}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": sources, "ports": [{"protocol": "TCP", "port": PORT}]}],
            "egress": egress,
        },
    }


def _rule(peer: Peer) -> dict[str, Any]:
    blocks = [
        {"ipBlock": {"cidr": f"{address}/{ipaddress.ip_address(address).max_prefixlen}"}}
        for address in peer.addresses
    ]
    return {"to": blocks, "ports": [{"protocol": "TCP", "port": peer.port}]}


def disruption_budget(
    name: str,
    blueprint: Blueprint,
    owner: str,
    root: dict[str, Any] | None = None,
    *,
    api_version: str = "policy/v1",
) -> dict[str, Any]:
    """Return the PodDisruptionBudget: nodes are emptied of one server at a time.

    Args:
        name: Its name.
        blueprint: What it is of.
        owner: Which process makes it.
        root: The StatefulSet with which it ends.
        api_version: ``policy/v1``, or ``policy/v1beta1`` before Kubernetes 1.21.
    """
    return {
        "apiVersion": api_version,
        "kind": "PodDisruptionBudget",
        "metadata": metadata(name, blueprint, owner, root),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": {"app.kubernetes.io/instance": name}},
        },
    }
