"""What the API server is told, held against the published schemas and the restricted standard.

The cluster of the testbed enforces neither a NetworkPolicy nor a RuntimeClass, and knows no
policy/v1; so here their form is checked.
"""

from __future__ import annotations

import datetime
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import gymnasium
import pytest

from openenv_gym import errors
from openenv_gym.providers import Mount, Resources, ServerTarget
from openenv_gym.providers.kubernetes import KubernetesProvider, blueprint, lease, objects
from openenv_gym.providers.kubernetes.blueprint import Blueprint
from openenv_gym.providers.kubernetes.cluster import Cluster, ClusterChoice
from openenv_gym.providers.kubernetes.fleet import Fleet
from tests.support.serving import serving


VERSIONS = ("1.25", "1.31", "1.37")
ROOT = {"metadata": {"name": "set", "uid": "1-2-3"}}


def blueprint_of(target: ServerTarget | None = None, **options: Any) -> Blueprint:
    return KubernetesProvider(**options)._blueprint(target or ServerTarget("echo_env"))


def everything(one: Blueprint) -> list[dict[str, Any]]:
    return [
        objects.stateful_set("set", one, "me", 2),
        objects.service("set", one, "me", ROOT),
        objects.token_secret("set", one, "me", ["a", "b"], ROOT),
        objects.network_policy("set", one, "me", ROOT),
        objects.disruption_budget("set", one, "me", ROOT),
    ]


FULL: dict[str, Any] = {
    "resources": Resources(memory_bytes=1 << 30, cpus=0.5, gpus=2, tmp_bytes=1 << 20),
    "network": ["192.0.2.7:443", "[2001:db8::1]:8443"],
    "mounts": [Mount("data", "/data"), Mount("out", "/out", read_only=False)],
    "environment": {"KEY": "value"},
    "runtime": "gvisor",
    "clients": ["10.1.0.0/16"],
    "workers": 3,
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("options", [{}, FULL, {"network": "open"}], ids=["none", "all", "open"])
def test_objects_are_as_published(version: str, options: dict[str, Any]) -> None:
    validator = pytest.importorskip("kubernetes_validate")
    for body in everything(blueprint_of(**options)):
        validator.validate(body, version, strict=True)


@pytest.mark.parametrize("options", [{}, FULL], ids=["none", "all"])
def test_pods_are_restricted(options: dict[str, Any]) -> None:
    """Pod Security Standards, "restricted", line by line."""
    spec = objects.pod_spec("set", blueprint_of(**options))
    for key in ("hostNetwork", "hostPID", "hostIPC", "hostUsers", "initContainers"):
        assert key not in spec
    allowed = {"emptyDir", "secret", "persistentVolumeClaim"}
    assert all(set(volume) - {"name"} <= allowed for volume in spec["volumes"])
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    [container] = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
    }
    assert all("hostPort" not in port for port in container["ports"])
    assert container["resources"]["limits"] == container["resources"]["requests"]


def test_bounds_reach_the_pod() -> None:
    spec = objects.pod_spec("set", blueprint_of(**FULL))
    limits = spec["containers"][0]["resources"]["limits"]
    assert (limits["memory"], limits["cpu"]) == (str(1 << 30), "500m")
    assert limits["nvidia.com/gpu"] == "2"
    tmp = next(volume for volume in spec["volumes"] if volume["name"] == "tmp")
    assert tmp["emptyDir"] == {"medium": "Memory", "sizeLimit": str(1 << 20)}
    assert spec["runtimeClassName"] == "gvisor"
    assert {"name": "KEY", "value": "value"} in spec["containers"][0]["env"]
    assert spec["terminationGracePeriodSeconds"] > 10


def test_no_token_stands_in_a_pod() -> None:
    text = str(objects.stateful_set("set", blueprint_of(), "me", 1))
    secret = objects.token_secret("set", blueprint_of(), "me", ["hunter2", "swordfish"])
    assert set(secret["data"]) == {"set-0", "set-1"}
    for data in ("hunter2", "swordfish", *secret["data"].values()):
        assert data not in text


# -- network ------------------------------------------------------------------------------------


def test_nothing_may_be_reached_by_default() -> None:
    spec = objects.network_policy("set", blueprint_of(), "me")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["egress"] == []
    pod = objects.pod_spec("set", blueprint_of())
    assert pod["dnsPolicy"] == "None"


def test_environments_are_no_clients_of_each_other() -> None:
    [rule] = objects.network_policy("set", blueprint_of(), "me")["spec"]["ingress"]
    [source] = rule["from"]
    [expression] = source["podSelector"]["matchExpressions"]
    assert expression["operator"] == "NotIn"
    assert objects.labels("set", "x")[expression["key"]] in expression["values"]


def test_an_allow_list_is_one_of_addresses() -> None:
    spec = objects.network_policy("set", blueprint_of(**FULL), "me")["spec"]
    assert spec["egress"] == [
        {
            "to": [{"ipBlock": {"cidr": "192.0.2.7/32"}}],
            "ports": [{"protocol": "TCP", "port": 443}],
        },
        {
            "to": [{"ipBlock": {"cidr": "2001:db8::1/128"}}],
            "ports": [{"protocol": "TCP", "port": 8443}],
        },
    ]
    assert {"ipBlock": {"cidr": "10.1.0.0/16"}} in spec["ingress"][0]["from"]


def test_names_are_looked_up_once_and_told_to_the_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def look_up(host: str, port: int, **kwargs: Any) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", port))]

    monkeypatch.setattr(blueprint.socket, "getaddrinfo", look_up)
    provider = KubernetesProvider(network=["example.org:443"])
    pods = [provider._blueprint(ServerTarget("echo_env")) for _ in range(2)]
    assert asked == ["example.org"]
    assert pods[0] == pods[1]
    spec = objects.pod_spec("set", pods[0])
    assert spec["hostAliases"] == [{"ip": "8.8.8.8", "hostnames": ["example.org"]}]


@pytest.mark.parametrize("address", ["169.254.169.254", "224.0.0.1", "64:ff9b::a00:1", "fec0::2"])
def test_a_name_that_leads_inside_is_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80))]
    monkeypatch.setattr(blueprint.socket, "getaddrinfo", lambda *args, **kwargs: found)
    with pytest.raises(errors.InvalidOptionError, match="no public address") as caught:
        KubernetesProvider(network=["metadata.example:80"])
    assert caught.value.field == "network"


# -- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("pids", {"resources": Resources(pids=64)}),
        ("files", {"resources": Resources(files=64)}),
        ("log_bytes", {"resources": Resources(log_bytes=1 << 20)}),
        ("gpus", {"resources": Resources(gpus="all")}),
        ("mounts", {"mounts": [Mount("/srv/data", "/data")]}),
        ("mounts", {"mounts": [Mount("Data_1", "/data")]}),
        ("pull", {"pull": "Sometimes"}),
        ("reach", {"reach": "telepathy"}),
        ("clients", {"clients": ["everywhere"]}),
        ("clients", {"clients": "10.0.0.0/8"}),
        ("drain_s", {"drain_s": 0}),
        ("start_timeout_s", {"start_timeout_s": float("nan")}),
        ("namespace", {"namespace": ""}),
        ("workers", {"workers": 0}),
    ],
)
def test_what_cannot_be_honoured_is_refused(field: str, options: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidOptionError) as caught:
        KubernetesProvider(**options)
    assert caught.value.field == field


def test_sessions_that_share_a_server_are_refused() -> None:
    target = ServerTarget("echo_env", untrusted=True, isolate_sessions=True)
    with pytest.raises(errors.IsolationError):
        KubernetesProvider().start(target)


def test_servers_of_one_vector_share_a_set() -> None:
    sizes = [ServerTarget("echo_env", num_envs=number) for number in (2, 3)]
    assert blueprint_of(sizes[0]) == blueprint_of(sizes[1])


def test_without_a_cluster_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(errors.ProviderUnavailableError, match="Nothing says which") as caught:
        KubernetesProvider().start(ServerTarget("echo_env"))
    assert "KUBECONFIG" in str(caught.value.hint)


KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: a, context: {cluster: a, user: a, namespace: here}}]
users: [{name: a, user: {}}]
current-context: a
"""


def test_a_relative_path_is_followed_from_wherever_the_guardian_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(KUBECONFIG)
    (tmp_path / "more").write_text(KUBECONFIG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", f"config{os.pathsep}more")
    choices = [ClusterChoice.of(path, None, None) for path in (None, "more")]
    fleet = Fleet(cast("Any", SimpleNamespace(choice=choices[0])), blueprint_of())
    told = json.loads(json.loads(fleet._watched.partition(":")[2])[-1])
    monkeypatch.chdir("/")
    assert told[0] == choices[0].config_file
    for choice in choices:
        with pytest.raises(errors.ProviderUnavailableError, match="http://127.0.0.1:1") as caught:
            Cluster(choice)
        assert caught.value.data["namespace"] == "here"


# -- readiness ----------------------------------------------------------------------------------


class Tiny(gymnasium.Env[int, int]):
    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)


def probe(port: int, token_file: Path) -> int:
    command = objects.probe_command(port, str(token_file))
    return subprocess.run([sys.executable, *command[1:]], stderr=subprocess.DEVNULL).returncode


def test_ready_is_who_makes_the_handshake(tmp_path: Path) -> None:
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.write_text("secret\n")
    wrong.write_text("guess\n")
    with serving(Tiny, token="secret") as url:
        port = int(url.rpartition(":")[2])
        assert probe(port, right) == 0
        assert probe(port, wrong) != 0
    assert probe(port, right) != 0


def test_an_open_port_is_not_ready(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, *objects.probe_command(port, str(token))[1:]],
            stderr=subprocess.DEVNULL,
        )
        with listener.accept()[0] as sock:
            sock.recv(4096)
            sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        assert process.wait(60) != 0


# -- leases -------------------------------------------------------------------------------------


def test_a_lease_says_until_when_a_set_is_in_use() -> None:
    made = {"metadata": {"annotations": {lease.LEASE: lease.lease_text()}}}
    now = datetime.datetime.now(datetime.timezone.utc)
    until = lease.lease_until(made)
    assert until is not None
    assert lease.RENEW_S * 2 < (until - now).total_seconds() <= lease.VALID_S
    for text in ("", "soon", "2026-01-01T00:00:00"):  # the last one is of no time zone
        assert lease.lease_until({"metadata": {"annotations": {lease.LEASE: text}}}) is None
    assert lease.lease_until({"metadata": {}}) is None
