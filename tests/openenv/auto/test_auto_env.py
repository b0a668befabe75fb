"""`AutoEnv` and `AutoAction` by names of what is here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import openenv_gym
from openenv_gym import AutoAction, AutoEnv, GenericAction, GenericEnvClient, errors
from openenv_gym.openenv import find_environments
from openenv_gym.openenv.auto import installed
from tests.support.fake_openenv import FakeOpenEnv


ECHO = pytest.mark.parametrize(
    "name", ["echo", "echo-env", "echo_env", "Echo-v0", "openenv/Echo-v0"]
)


@ECHO
def test_every_name_of_an_environment_gives_its_classes(name: str) -> None:
    import echo_env

    assert AutoEnv.get_env_class(name) is echo_env.EchoEnv
    assert AutoAction.from_env(name) is AutoAction.from_hub(name) is echo_env.EchoAction


def test_a_name_becomes_a_client_with_a_server_of_its_own() -> None:
    with AutoEnv.from_env("echo", container_provider="thread").sync() as client:
        assert client.reset().observation.echoed_message == "Echo environment ready!"
        action = AutoAction.from_env("echo")(message="Hi")
        assert client.step(action).observation.echoed_message == "Hi"


def test_an_id_brings_its_options() -> None:
    with AutoEnv.from_env(
        "openenv/FrozenLake-v1", container_provider="thread", options={"is_slippery": False}
    ) as client:
        assert client.reset(seed=1).observation["observation"] == 0
        assert client.step({"action": 2}).observation["observation"] == 1


def test_the_list_imports_nothing(
    install: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    install(init="raise RuntimeError('imported')")
    assert {"atari", "ludo", "echo"} <= set(find_environments())
    AutoEnv.list_environments()
    AutoAction.list_actions()
    shown = capsys.readouterr().out
    assert "A game." in shown and "openenv/Ludo-v0" in shown and "LudoAction (ludo_env)" in shown
    assert "ludo_env" not in sys.modules


def test_what_is_known_of_an_environment(install: Callable[..., Path]) -> None:
    install(manifest=LUDO_WITH_CLASSES, init="raise RuntimeError('imported')")
    assert AutoEnv.get_env_info("ludo-env") == {
        "env_key": "ludo",
        "name": "ludo_env",
        "package": "openenv-gym-ludo",
        "version": "0.1.0",
        "description": "",
        "env_class": "Board",
        "action_class": "LudoMove",
        "observation_class": "LudoObservation",
        "module": "ludo_env",
        "default_image": "openenv-gym-ludo",
        "spec_version": 1,
        "ids": ["openenv/Ludo-v0"],
        "installed": True,
    }
    assert AutoAction.get_action_info("ludo") == {
        "env_key": "ludo",
        "env_name": "ludo_env",
        "package": "openenv-gym-ludo",
        "action_class": "LudoMove",
        "observation_class": "LudoObservation",
        "module": "ludo_env",
    }


LUDO_WITH_CLASSES = """
name: ludo_env
client: ludo_env.other:Board
action: LudoMove
ids: [{id: Ludo-v0}]
"""


def test_classes_that_a_manifest_names(install: Callable[..., Path]) -> None:
    directory = install(manifest=LUDO_WITH_CLASSES, init="class LudoMove: ...")
    (directory / "other.py").write_text("class Board: ...")
    assert AutoEnv.get_env_class("ludo").__module__ == "ludo_env.other"
    assert AutoAction.from_env("ludo").__name__ == "LudoMove"
    assert AutoEnv.get_env_class("Ludo-v0").__name__ == "Board"


def test_a_class_that_a_manifest_names_in_vain(install: Callable[..., Path]) -> None:
    install(manifest=LUDO_WITH_CLASSES, client="")
    with pytest.raises(errors.ManifestError, match=r"ludo_env\.other") as caught:
        AutoEnv.from_env("ludo")
    assert caught.value.field == "client"


def test_a_package_without_a_client_has_the_generic_one(install: Callable[..., Path]) -> None:
    install(client=None)
    assert AutoEnv.get_env_class("ludo") is GenericEnvClient
    assert AutoAction.from_env("ludo") is GenericAction


def test_a_package_that_cannot_be_imported(install: Callable[..., Path]) -> None:
    install(init="import no_such_thing")
    with pytest.raises(errors.ConfigurationError, match="no_such_thing") as caught:
        AutoEnv.from_env("ludo")
    assert "skip_install=True" in str(caught.value)
    assert type(AutoEnv.from_env("ludo", skip_install=True)) is GenericEnvClient
    assert AutoAction.from_env("ludo", skip_install=True) is GenericAction


def test_a_package_that_is_not_installed_runs_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "_is_installed", lambda package: False)
    assert AutoEnv.get_env_info("atari")["installed"] is False
    assert type(AutoEnv.from_env("atari")) is GenericEnvClient
    assert AutoAction.from_env("atari") is GenericAction


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ecko", "Did you mean 'echo'?"),
        ("openenv/Ecko-v0", "Did you mean 'openenv/Echo-v0'?"),
        ("nothing like it", "base_url="),
    ],
)
def test_names_that_miss(name: str, hint: str) -> None:
    for ask in (AutoEnv.from_env, AutoEnv.get_env_class, AutoEnv.get_env_info, AutoAction.from_env):
        with pytest.raises(errors.UnknownEnvironmentError) as caught:
            ask(name)
        assert hint in str(caught.value)


def test_no_name_and_no_instances() -> None:
    with pytest.raises(errors.InvalidOptionError):
        AutoEnv.from_env(" ")
    for factory in (AutoEnv, AutoAction):
        with pytest.raises(errors.ConfigurationError, match="from_env"):
            factory()


def test_a_server_that_runs_already() -> None:
    with FakeOpenEnv() as server:
        with AutoEnv.from_env(server.url).sync() as client:
            assert client.reset().observation["count"] == 0
        with AutoEnv.from_env("pettingzoo", base_url=server.url).sync() as client:
            assert client.reset().observation["count"] == 0
        assert isinstance(AutoEnv.from_env("echo", server.url), openenv_gym.MCPToolClient)
        for keywords in ({}, {"skip_install": True}):
            unheard_of = AutoEnv.from_env("my-own", base_url=server.url, **keywords)
            assert type(unheard_of) is GenericEnvClient
        with pytest.raises(errors.UnknownEnvironmentError, match="Echo-v0"):
            AutoEnv.from_env("openenv/Ecko-v0", base_url=server.url)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"base_url": "http://localhost:1", "docker_image": "x"}, "docker_image"),
        ({"base_url": "http://localhost:1", "container_provider": "docker"}, "container_provider"),
        ({"env_vars": {"A": "1"}}, "env_vars"),
    ],
)
def test_arguments_that_contradict_each_other(arguments: Mapping[str, Any], field: str) -> None:
    with pytest.raises(errors.InvalidOptionError) as caught:
        AutoEnv.from_env("echo", **arguments)
    assert caught.value.field == field


class ContainerProvider:
    """What OpenEnv calls a provider."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.calls: list[Any] = []

    def start_container(
        self, image: str, port: int | None = None, env_vars: dict[str, str] | None = None
    ) -> str:
        self.calls.append(("start", image, env_vars))
        return self.url

    def wait_for_ready(self, base_url: str, timeout_s: float = 30.0) -> None:
        self.calls.append(("wait", base_url, timeout_s))

    def stop_container(self) -> None:
        self.calls.append("stop")


def test_a_provider_of_openenvs_starts_the_container() -> None:
    with FakeOpenEnv() as server:
        provider = ContainerProvider(server.url)
        client = AutoEnv.from_env(
            "pettingzoo",
            docker_image="my-image:1",
            container_provider=provider,
            env_vars={"GAME": "pong"},
            wait_timeout=7.0,
        )
        assert not provider.calls
        with client.sync() as blocking:
            blocking.reset()
        assert provider.calls == [
            ("start", "my-image:1", {"GAME": "pong"}),
            ("wait", server.url, 7.0),
            "stop",
        ]


def test_packages_of_openenvs_are_found_with_their_clients(install: Callable[..., Path]) -> None:
    code = "class LabyrinthEnv:\n    def __init__(self, **kwargs): self.kwargs = kwargs\n"
    install("labyrinth_env", manifest=None, client=code, distribution="openenv-labyrinth_env")
    info = AutoEnv.get_env_info("labyrinth")
    assert (info["package"], info["version"]) == ("openenv-labyrinth_env", "1.0")
    assert (info["env_class"], info["default_image"]) == ("LabyrinthEnv", "labyrinth-env:latest")
    client: Any = AutoEnv.from_env("labyrinth", base_url="http://localhost:1")
    assert client.kwargs == {"base_url": "http://localhost:1"}
    with pytest.raises(errors.InvalidOptionError, match="base_url") as caught:
        AutoEnv.from_env("labyrinth")
    assert caught.value.field
