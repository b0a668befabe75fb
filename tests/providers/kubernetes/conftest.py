"""A cluster for the tests that need one: `python3 dev.py kubernetes` brings it up."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openenv_gym._version import __version__
from openenv_gym.doctor.attack import room
from openenv_gym.providers import Resources, ServerTarget
from openenv_gym.providers.kubernetes import KubernetesProvider
from openenv_gym.providers.kubernetes.cluster import Cluster, ClusterChoice
from openenv_gym.providers.kubernetes.server import KubernetesServer
from tests.providers.docker.conftest import Attack, built
from tests.support.engines import missing
from tests.support.waiting import eventually


MakeServer = Callable[..., KubernetesServer]

SMALL = Resources(cpus=0.5, memory_bytes=400 << 20)
"""So that several find room on a small node."""

_ATTACKER = Path(room.__file__).read_text()


def small(**options: Any) -> KubernetesProvider:
    """Return a provider of small pods, of images that are on the node."""
    return KubernetesProvider(**{"resources": SMALL, "pull": "Never", "drain_s": 2.0, **options})


_started: list[KubernetesServer] = []


def start(provider: KubernetesProvider, package: str = "echo_env") -> KubernetesServer:
    """Start a server, which ends with the test."""
    server = provider.start(ServerTarget(package))
    assert isinstance(server, KubernetesServer)
    _started.append(server)
    return server


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """The cluster that KUBECONFIG names; afterwards nothing of ours is left there."""
    if not os.environ.get("KUBECONFIG") or not os.environ.get("OPENENV_CLUSTER_ENGINE"):
        missing("kubernetes", "no cluster: python3 dev.py kubernetes brings one up")
    found = Cluster(ClusterChoice.of(None, None, None))
    yield found
    while _started:
        _started.pop().stop(0.0)
    # The kubelet of 1.20 comes to a pod whose container never ran when its next try is due.
    assert eventually(lambda: leftovers(found) == [], 240), leftovers(found)
    found.close()


def leftovers(cluster: Cluster) -> list[str]:
    """Return what of ours is in the cluster."""
    kinds = ("StatefulSet", "Pod", "Service", "Secret", "NetworkPolicy", "PodDisruptionBudget")
    return [f"{kind} {each['metadata']['name']}" for kind in kinds for each in cluster.find(kind)]


@pytest.fixture(scope="session")
def attacker_image() -> Iterator[str]:
    """Image on the node whose environment runs the code that it is given."""
    docker = pytest.importorskip("docker")
    client = docker.DockerClient(os.environ["OPENENV_CLUSTER_ENGINE"])
    dockerfile = (
        f"FROM openenv-gym-echo:{__version__}\n"
        "COPY attacker.py /opt/attacker/\nENV PYTHONPATH=/opt/attacker\n"
    )
    with built(client, {"Dockerfile": dockerfile, "attacker.py": _ATTACKER}) as name:
        yield name
    client.close()


@pytest.fixture
def attacker(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[MakeServer]:
    """Return a function that starts a server which runs given code."""
    image = request.getfixturevalue("attacker_image")
    yield lambda **options: start(small(image=image, **options), "attacker:app")
    for session in Attack.opened:
        session.connection.close(0.0)
    Attack.opened.clear()
