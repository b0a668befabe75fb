"""Command lines and settings of the cluster's programs. Nothing is started here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.testbed.kubernetes.machine import free_port, node_name, own_address


__all__ = [
    "PAUSE",
    "PROGRAMS",
    "api_server",
    "controllers",
    "engine",
    "etcd",
    "kubeconfig",
    "kubelet",
    "kubelet_settings",
]

PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
PAUSE = "openenv-pause:1"

_SERVICES = "10.97.0.0/24"
_CLAMP = Path(__file__).with_name("runc_clamp.sh")

_KUBELET: dict[str, Any] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "address": "127.0.0.1",
    "readOnlyPort": 0,
    "cgroupDriver": "cgroupfs",
    "failSwapOn": False,
    # As every cluster from 1.22 on has it: the size limit of a volume in memory is its size.
    "featureGates": {"SizeMemoryBackedVolumes": True},
    "cgroupsPerQOS": False,
    "enforceNodeAllocatable": [],
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}, "x509": {}},
    "authorization": {"mode": "AlwaysAllow"},
    "clusterDomain": "cluster.local",
    "evictionHard": {
        "memory.available": "100Mi",
        "nodefs.available": "1%",
        "imagefs.available": "1%",
    },
    "imageGCHighThresholdPercent": 100,
    "imageGCLowThresholdPercent": 99,
    "nodeStatusUpdateFrequency": "2s",
    "syncFrequency": "1s",
}


def engine(place: Path, socket: Path, settings: Path, bridge: str) -> list[str]:
    """Return the command of the node's own Docker Engine."""
    return [
        "dockerd",
        *("--config-file", str(settings)),
        *("--data-root", str(place / "data"), "--exec-root", str(place / "run")),
        *("--pidfile", str(place / "pid"), "--host", f"unix://{socket}"),
        *(f"--bridge={bridge}", "--iptables=false", "--ip-masq=false"),
        "--ip-forward=false",
        *("--add-runtime", f"clamp={_CLAMP}"),
        *("--default-runtime", "clamp"),
    ]


def etcd(data: Path, client: int, peer: int) -> list[str]:
    """Return the command of the store, which listens on two ports of the loopback interface."""
    return [
        "etcd",
        *("--data-dir", str(data)),
        *("--listen-client-urls", f"http://127.0.0.1:{client}"),
        *("--advertise-client-urls", f"http://127.0.0.1:{client}"),
        *("--listen-peer-urls", f"http://127.0.0.1:{peer}"),
        *("--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}"),
        *("--initial-cluster", f"default=http://127.0.0.1:{peer}"),
    ]


def api_server(
    binaries: Path, *, store: int, port: int, certificates: Path, key: Path, tokens: Path
) -> list[str]:
    """Return the command of the API server."""
    return [
        str(binaries / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{store}",
        "--bind-address=127.0.0.1",
        f"--advertise-address={own_address()}",
        f"--secure-port={port}",
        "--insecure-port=0",
        f"--cert-dir={certificates}",
        f"--service-cluster-ip-range={_SERVICES}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={key}",
        f"--service-account-key-file={key}",
        "--allow-privileged=true",
        "--disable-admission-plugins=ServiceAccount",
        "--endpoint-reconciler-type=none",
        "--kubelet-preferred-address-types=Hostname",
    ]


def kubeconfig(port: int, authority: Path, users: dict[str, str]) -> str:
    """Return a kubeconfig with a context for each user, the first one of which is current.

    Args:
        port: Of the API server.
        authority: Its certificate.
        users: Token by name.
    """
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(authority)}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "testbed", "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}} for name, token in users.items()],
            "contexts": [
                {"name": name, "context": {"cluster": "testbed", "user": name}} for name in users
            ],
            "current-context": next(iter(users)),
        }
    )


def controllers(binaries: Path, directory: Path, config: Path, key: Path) -> dict[str, list[str]]:
    """Return the commands of scheduler and controllers by their names."""
    own = {
        "kube-scheduler": [],
        "kube-controller-manager": [
            f"--service-account-private-key-file={key}",
            "--use-service-account-credentials=false",
            "--node-monitor-grace-period=10s",
            "--pod-eviction-timeout=10s",
        ],
    }
    return {
        name: [
            str(binaries / name),
            f"--kubeconfig={config}",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
            f"--cert-dir={directory / name}",
            "--port=0",
            "--leader-elect=false",
            *options,
        ]
        for name, options in own.items()
    }


def kubelet_settings() -> str:
    """Return the kubelet's configuration."""
    # It needs a resolver, and pods get none of it.
    ports = {"port": free_port(), "healthzPort": free_port()}
    return json.dumps({**_KUBELET, **ports, "resolvConf": "/etc/resolv.conf"})


def kubelet(binaries: Path, place: Path, config: Path, settings: Path, socket: Path) -> list[str]:
    """Return the command of the kubelet, whose containers are those of the node's engine."""
    return [
        str(binaries / "kubelet"),
        f"--config={settings}",
        f"--kubeconfig={config}",
        f"--hostname-override={node_name()}",
        f"--node-ip={own_address()}",
        "--container-runtime=docker",
        f"--docker-endpoint=unix://{socket}",
        f"--pod-infra-container-image={PAUSE}",
        f"--root-dir={place}",
        f"--cert-dir={place / 'pki'}",
        f"--volume-plugin-dir={place / 'plugins'}",
    ]
