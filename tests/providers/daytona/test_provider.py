"""Servers in sandboxes, as the service's own SDK makes them, on a local server that speaks its API."""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import openenv_gym  # noqa: F401  # registers the ids
from openenv_gym import errors
from openenv_gym.client import Connection
from openenv_gym.providers import Resources, ServerTarget, get_provider
from openenv_gym.providers.daytona import DaytonaProvider
from openenv_gym.providers.daytona.address import SignedAddress
from openenv_gym.providers.owner import Owner
from tests.support.fake_daytona import KEY, FakeDaytona, FakeSandbox, fake_daytona
from tests.support.waiting import eventually


TARGET = ServerTarget("echo_env")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDaytona]:
    pytest.importorskip("daytona", reason="the SDK of Daytona is not installed")
    with fake_daytona() as fake:
        monkeypatch.setenv("DAYTONA_API_KEY", KEY)
        monkeypatch.setenv("DAYTONA_API_URL", fake.url)
        yield fake


@pytest.fixture
def server(service: FakeDaytona) -> Iterator[Any]:
    server = DaytonaProvider(image="registry.example/echo:1").start(TARGET)
    yield server
    server.stop()


def only(service: FakeDaytona) -> FakeSandbox:
    (sandbox,) = service.sandboxes.values()
    return sandbox


def connect(server: Any) -> Connection:
    return Connection(
        server.address, {}, token=server.token, why_lost=server.why_lost, timeout_s=30
    )


def test_an_environment_is_played_through_a_signed_url(service: FakeDaytona) -> None:
    provider = DaytonaProvider(image="registry.example/echo:1")
    env = gymnasium.make("openenv/Echo-v0", provider=provider)
    local = gymnasium.make("openenv/Echo-v0", provider="thread")
    for each in (env, local):
        each.action_space.seed(0)
    first = [each.reset(seed=3)[0] for each in (env, local)]
    assert repr(first[0]) == repr(first[1])
    action = env.action_space.sample()
    assert repr(env.step(action)[:4]) == repr(local.step(action)[:4])
    local.close()
    env.close()
    assert service.sandboxes == {}


def test_what_a_sandbox_is_created_with(service: FakeDaytona) -> None:
    provider = DaytonaProvider(
        image="registry.example/echo:1",
        resources=Resources(memory_bytes=4 << 30, cpus=2, gpus=1),
        network="none",
        environment={"GREETING": "hello"},
        auto_stop_minutes=7,
    )
    server = provider.start(TARGET)
    body = only(service).body
    assert body["buildInfo"]["dockerfileContent"].strip() == "FROM registry.example/echo:1"
    assert (body["memory"], body["cpu"], body["gpu"]) == (4, 2, 1)
    assert body["networkBlockAll"] is True
    assert body["public"] is False
    assert body["env"]["GREETING"] == "hello"
    # Nobody keeps it alive: it is stopped, and with that deleted.
    assert (body["autoStopInterval"], body["autoDeleteInterval"]) == (7, 0)
    assert Owner.parse(body["labels"]["openenv.owner"]) == Owner.current()
    server.stop()
    assert service.sandboxes == {}
    server.stop()  # again


def test_a_snapshot_in_place_of_an_image(service: FakeDaytona) -> None:
    server = DaytonaProvider(snapshot="echo-1").start(TARGET)
    assert only(service).body["snapshot"] == "echo-1"
    server.stop()


def test_the_token_is_in_a_file_and_nowhere_else(service: FakeDaytona, server: Any) -> None:
    sandbox = only(service)
    assert server.token
    assert server.token not in sandbox.command
    assert server.token not in str(sandbox.body)  # which the service shows
    assert Path(sandbox.place("/tmp/openenv-token")).read_text() == server.token
    assert sandbox.modes == {"/tmp/openenv-token": "600"}
    with pytest.raises(errors.UnauthorizedError):
        Connection(server.address, {}, timeout_s=30)
    connect(server).close()


def test_it_is_kept_alive(service: FakeDaytona, monkeypatch: pytest.MonkeyPatch) -> None:
    from openenv_gym.providers.daytona import provider

    monkeypatch.setattr(provider, "_REFRESHES", 60 * 50)  # each 0.1 s
    server = DaytonaProvider(image="registry.example/echo:1").start(TARGET)
    assert eventually(lambda: only(service).refreshed >= 2)
    server.stop()


def test_a_url_that_expires_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    from openenv_gym.providers.daytona import address

    made: list[int] = []

    def sign(valid_s: int) -> str:
        made.append(valid_s)
        return f"https://8000-{len(made)}.proxy.example"

    signed = SignedAddress(sign, "daytona:x")
    assert signed.uri == "wss://8000-1.proxy.example:443/ws"
    assert signed.uri == "wss://8000-1.proxy.example:443/ws"
    # In that module alone: threads of other tests have clocks, too.
    later = types.SimpleNamespace(monotonic=lambda: signed._until_s + 1)
    monkeypatch.setattr(address, "time", later)
    assert signed.uri == "wss://8000-2.proxy.example:443/ws"
    assert made == [3600, 3600]


def test_a_lost_connection_is_resumed(server: Any) -> None:
    connection = connect(server)
    connection.call("reset", [None, None])
    connection._drop()
    connection.call("reset", [None, None])
    connection.close()


def test_a_server_that_ends_is_told_with_its_last_lines(service: FakeDaytona, server: Any) -> None:
    only(service).end()
    assert eventually(lambda: server.why_lost() is not None, 30)
    lost = server.why_lost()
    assert isinstance(lost, errors.ServerDiedError)
    assert "was killed" in str(lost)
    assert "Serving" in lost.log


def test_a_sandbox_that_was_stopped_is_told(service: FakeDaytona, server: Any) -> None:
    service.stop(only(service))
    assert eventually(lambda: server.why_lost() is not None, 30)
    assert "it was deleted, or stopped" in str(server.why_lost())


def test_a_server_that_does_not_start_leaves_nothing(service: FakeDaytona) -> None:
    provider = DaytonaProvider(image="registry.example/echo:1")
    with pytest.raises(errors.ServerStartError) as caught:
        provider.start(dataclasses.replace(TARGET, package="no_such_env"))
    assert "no_such_env" in str(caught.value.data["log"])
    assert service.sandboxes == {}


def test_leftovers_are_found_and_removed(service: FakeDaytona) -> None:
    provider = DaytonaProvider(image="registry.example/echo:1")
    server = provider.start(TARGET)
    service.create({"name": "somebody-elses", "labels": {}})
    (item,) = provider.inventory()
    assert (item.kind, item.name, item.in_use) == ("sandbox", server.name, True)
    provider.remove(item)
    provider.remove(item)  # gone already
    assert [each.body["name"] for each in service.sandboxes.values()] == ["somebody-elses"]
    server.stop()


# -- what is refused ----------------------------------------------------------------------------


def test_without_a_key(service: FakeDaytona, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAYTONA_API_KEY")
    provider = DaytonaProvider(image="registry.example/echo:1")
    with pytest.raises(
        errors.ProviderUnavailableError, match="DAYTONA_API_KEY is not set"
    ) as caught:
        provider.start(TARGET)
    assert "dashboard" in str(caught.value.hint)


def test_with_a_wrong_key(service: FakeDaytona) -> None:
    provider = DaytonaProvider(image="registry.example/echo:1", api_key="dtn_wrong")
    with pytest.raises(errors.ProviderPermissionError, match="Daytona cannot start a sandbox"):
        provider.start(TARGET)
    assert "dtn_wrong" not in repr(provider)


def test_a_service_that_refuses(service: FakeDaytona) -> None:
    service.refuse = 400, "Total memory limit exceeded"
    with pytest.raises(errors.ServerStartError, match="Total memory limit exceeded"):
        DaytonaProvider(image="registry.example/echo:1").start(TARGET)


def test_without_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "daytona", None)
    with pytest.raises(errors.ProviderUnavailableError) as caught:
        DaytonaProvider(image="x", api_key="k").start(TARGET)
    assert 'pip install "openenv-gym[daytona]"' in str(caught.value)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"resources": {"pids": 100}}, "pids"),
        ({"resources": {"memory_bytes": 1 << 20}}, "memory_bytes"),
        ({"resources": {"cpus": 0.5}}, "cpus"),
        ({"resources": {"gpus": "all"}}, "gpus"),
        ({"network": ["api.example.com:443"]}, "network"),
        ({"runtime": "runsc"}, "runtime"),
        ({"snapshot": "x", "image": "y"}, "snapshot"),
        ({"snapshot": ""}, "snapshot"),
        ({"image": ""}, "image"),
        ({"image": Path("echo")}, "image"),
        ({"api_url": 5}, "api_url"),
        ({"api_key": b"secret"}, "api_key"),
        ({"region": ["eu"]}, "region"),
        ({"snapshot": "x", "resources": {"cpus": 1}}, "resources"),
        ({"auto_stop_minutes": 0}, "auto_stop_minutes"),
        ({"workers": 0}, "workers"),
    ],
)
def test_what_cannot_be_honoured_is_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises(errors.InvalidOptionError) as caught:
        DaytonaProvider(**options)
    assert caught.value.field == field
    assert "secret" not in str(caught.value)


def test_an_image_must_be_named(service: FakeDaytona) -> None:
    with pytest.raises(errors.InvalidOptionError, match="which image of echo_env") as caught:
        DaytonaProvider().start(TARGET)
    assert caught.value.field == "image"


def test_sessions_cannot_be_kept_apart_in_one_sandbox() -> None:
    target = dataclasses.replace(TARGET, isolate_sessions=True)
    with pytest.raises(errors.IsolationError):
        DaytonaProvider(image="x").start(target)


def test_it_has_a_name() -> None:
    assert get_provider("daytona").name == "daytona"
