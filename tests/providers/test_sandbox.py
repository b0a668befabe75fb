"""What a server may have and reach: values check themselves, providers refuse what they cannot."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.providers import Mount, Network, ProcessProvider, Resources, Sandbox
from openenv_gym.providers.thread import ThreadProvider


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("memory_bytes", 0),
        ("memory_bytes", 2.5),
        ("memory_bytes", True),
        ("cpus", 0),
        ("cpus", float("inf")),
        ("cpus", float("nan")),
        ("cpus", "2"),
        ("gpus", "some"),
        ("gpus", 0),
        ("pids", -1),
        ("tmp_bytes", "64m"),
        ("files", 2**70),
        ("log_bytes", []),
    ],
)
def test_a_bound_that_is_none_is_named(name: str, value: Any) -> None:
    with pytest.raises(errors.InvalidOptionError, match=f"{name} is ") as caught:
        Resources(**{name: value})
    assert caught.value.field == name


def test_only_what_is_set_counts() -> None:
    resources = Resources(cpus=0.5, gpus="all")
    assert resources.set() == {"cpus": 0.5, "gpus": "all"}
    sandbox = Sandbox.of(resources=resources, network="none", mounts=[Mount("data", "/data")])
    assert list(sandbox.set()) == ["cpus", "gpus", "network", "mounts"]
    assert Sandbox.of(mounts=[], environment={}).set() == {}


@pytest.mark.parametrize(
    ("value", "mode", "hosts"),
    [
        ("none", "none", ()),
        ("open", "open", ()),
        ([], "none", ()),
        (["API.Example.com.:443"], "egress", ("api.example.com:443",)),
        (("127.0.0.1:80", "[0:0::1]:8"), "egress", ("127.0.0.1:80", "[::1]:8")),
        (Network.open(), "open", ()),
    ],
)
def test_a_network_is_read(value: Any, mode: str, hosts: tuple[str, ...]) -> None:
    network = Network.of(value)
    assert (network.mode, network.hosts) == (mode, hosts)


@pytest.mark.parametrize(
    "value",
    ["api.example.com:443", 3]
    + [
        [host]
        for host in ("api.example.com", "a:0", "a:99999", "http://a:1", ":1", "[a]:1", 5, "a b:1")
    ]
    + [[host] for host in ("x" * 300 + ":1", "-a:1", "a:\u0661")],
)
def test_no_network_is_named(value: Any) -> None:
    with pytest.raises(errors.InvalidOptionError) as caught:
        Network.of(value)
    assert caught.value.field == "network"
    assert "api.example.com:443" in str(caught.value.hint)


def test_a_network_allows_what_it_lists() -> None:
    network = Network.egress("api.example.com:443", "[::1]:8")
    assert network.allows("API.Example.com.", 443)
    assert network.allows("0:0:0:0:0:0:0:1", 8)
    assert not network.allows("api.example.com", 80)
    assert not network.allows("evil-api.example.com", 443)
    assert not network.allows("api.example.com.evil", 443)
    assert Network.open().allows("api.example.com", 80)
    assert not Network.none().allows("api.example.com", 80)


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("source", ("./here", "/data")),
        ("source", ("", "/data")),
        ("source", ("-v", "/data")),
        ("target", ("/tmp", "data")),
        ("target", ("/tmp", "/data/../etc")),
        ("target", ("/tmp", "/")),
        ("target", ("/tmp", "/proc/self")),
        ("read_only", ("/tmp", "/data", "no")),
    ],
)
def test_a_mount_that_is_none_is_named(field: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(errors.InvalidOptionError) as caught:
        Mount(*arguments)
    assert caught.value.field == field


def test_a_mount_is_a_directory_or_a_volume(tmp_path: Path) -> None:
    assert not Mount(tmp_path, "/data").is_volume  # type: ignore[arg-type]
    assert Mount(tmp_path, "/data").source == str(tmp_path)  # type: ignore[arg-type]
    assert Mount("datasets", "/data", read_only=False).is_volume


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("resources", {"resources": 3}),
        ("resources", {"resources": {"memory": 3}}),
        ("memory_bytes", {"resources": {"memory_bytes": "3"}}),
        ("mounts", {"mounts": ["/a:/b"]}),
        ("mounts", {"mounts": "/a:/b"}),
        ("environment", {"environment": {"A B": "c"}}),
        ("environment", {"environment": {"A": 3}}),
        ("environment", {"environment": "A=3"}),
        ("environment", {"environment": {"OPENENV_SERVER": "x"}}),
        ("runtime", {"runtime": ""}),
    ],
)
def test_a_keyword_that_is_none_is_named(field: str, options: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidOptionError) as caught:
        Sandbox.of(**options)
    assert caught.value.field == field


def test_values_of_variables_are_not_shown() -> None:
    sandbox = Sandbox.of(environment={"API_KEY": "hush"}, runtime="runsc")
    assert repr(sandbox) == "Sandbox(environment=['API_KEY'], runtime='runsc')"
    with pytest.raises(errors.InvalidOptionError) as caught:
        sandbox.refuse_unhonoured("thread", frozenset())
    assert "API_KEY" in str(caught.value) and "hush" not in str(caught.value)


def test_a_sandbox_can_be_pickled() -> None:
    sandbox = Sandbox.of(resources={"cpus": 1}, network=["a:1"], environment={"A": "b"})
    assert pickle.loads(pickle.dumps(sandbox)) == sandbox


@pytest.mark.parametrize("provider", [ThreadProvider, ProcessProvider], ids=lambda p: p.name)
@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("memory_bytes", {"resources": Resources(memory_bytes=1 << 30)}),
        ("gpus", {"resources": Resources(gpus=1)}),
        ("network", {"network": "none"}),
        ("mounts", {"mounts": [Mount("/tmp", "/data")]}),
        ("runtime", {"runtime": "runsc"}),
    ],
)
def test_what_cannot_be_honoured_is_refused(
    provider: Any, field: str, options: dict[str, Any]
) -> None:
    with pytest.raises(errors.InvalidOptionError, match=f"'{provider.name}' cannot") as caught:
        provider(**options)
    assert caught.value.field == field
    assert "docker" in str(caught.value.hint)


def test_threads_are_no_workers() -> None:
    with pytest.raises(errors.InvalidOptionError) as caught:
        ThreadProvider(workers=2)
    assert caught.value.field == "workers"
