"""The manifests for people (servers/kubernetes) are those of the provider, as far as they can be."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from openenv_gym._version import __version__
from openenv_gym.providers import ServerTarget
from openenv_gym.providers.kubernetes import KubernetesProvider, objects


MANIFESTS = Path(__file__).parents[3] / "servers" / "kubernetes"


def built(name: str) -> dict[str, dict[str, Any]]:
    """Return the objects of a folder by kind, as kustomize puts them together."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl, which has kustomize, is not installed")
    done = subprocess.run(
        ["kubectl", "kustomize", str(MANIFESTS / name)], stdout=subprocess.PIPE, check=True
    )
    return {each["kind"]: each for each in yaml.safe_load_all(done.stdout)}


@pytest.mark.parametrize("name", ["base", "overlays/gvisor", "overlays/egress"])
@pytest.mark.parametrize("version", ["1.25", "1.31", "1.37"])
def test_manifests_are_as_published(name: str, version: str) -> None:
    validator = pytest.importorskip("kubernetes_validate")
    found = built(name)
    assert set(found) == {"StatefulSet", "Service", "NetworkPolicy", "PodDisruptionBudget"}
    for body in found.values():
        validator.validate(body, version, strict=True)


def test_a_pod_is_what_the_provider_makes() -> None:
    found = built("base")["StatefulSet"]["spec"]["template"]["spec"]
    ours = objects.pod_spec("set", KubernetesProvider()._blueprint(ServerTarget("echo_env")))
    users = ("runAsUser", "runAsGroup", "fsGroup")
    assert set(found["securityContext"]) == set(ours["securityContext"])
    for key, value in ours["securityContext"].items():
        assert key in users or found["securityContext"][key] == value
    for key in ("automountServiceAccountToken", "enableServiceLinks", "dnsPolicy", "dnsConfig"):
        assert found[key] == ours[key]
    [one], [other] = found["containers"], ours["containers"]
    for key in ("securityContext", "ports", "startupProbe", "readinessProbe"):
        assert one[key] == other[key]
    assert one["resources"]["limits"] == one["resources"]["requests"]
    assert one["image"] == f"openenv-gym-echo:{__version__}"
    assert [each["mountPath"] for each in one["volumeMounts"]] == ["/tmp", objects.TOKEN_FILE]


def test_selectors_choose_the_pods_and_nothing_else() -> None:
    found = built("base")
    labels = found["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert found["Service"]["spec"]["selector"] == labels
    for kind, key in (
        ("StatefulSet", "selector"),
        ("PodDisruptionBudget", "selector"),
        ("NetworkPolicy", "podSelector"),
    ):
        assert found[kind]["spec"][key] == {"matchLabels": labels}
    # What people made is nothing for `openenv-gym clean`.
    assert labels.items().isdisjoint(objects.labels("set", "echo_env").items())
    assert found["NetworkPolicy"]["spec"]["egress"] == []


def test_an_overlay_changes_what_it_says() -> None:
    pod = built("overlays/gvisor")["StatefulSet"]["spec"]["template"]["spec"]
    assert pod["runtimeClassName"] == "gvisor"
    [rule] = built("overlays/egress")["NetworkPolicy"]["spec"]["egress"]
    assert rule["to"] == [{"ipBlock": {"cidr": "192.0.2.7/32"}}]


def test_a_role_names_what_the_provider_does() -> None:
    role = yaml.safe_load((MANIFESTS / "rbac" / "role.yaml").read_text())
    may = {
        (group, resource): set(rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert may["apps", "statefulsets"] == {"get", "list", "create", "patch", "delete"}
    assert "get" not in may["", "secrets"]  # it writes tokens, and reads none
    assert all("*" not in verbs for verbs in may.values())
