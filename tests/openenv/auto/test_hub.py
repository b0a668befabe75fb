"""Spaces of a Hub: how they are found, and that nothing of them runs here unasked."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openenv_gym import AutoAction, AutoEnv, GenericAction, GenericEnvClient, errors
from openenv_gym.openenv.auto import hub as hub_module
from openenv_gym.openenv.auto.hub import HubRepo, find_space, parse_repo, reach_space
from tests.support.fake_hub import FakeHub
from tests.support.fake_openenv import FakeOpenEnv
from tests.support.ports import reserved_port


SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    "name",
    [
        "ann/Labyrinth_Env.v2",
        "https://huggingface.co/spaces/ann/Labyrinth_Env.v2",
        "https://huggingface.co/spaces/ann/Labyrinth_Env.v2/tree/main",
        "https://huggingface.co/ann/Labyrinth_Env.v2/",
        "https://hf.co/spaces/ann/Labyrinth_Env.v2",
    ],
)
def test_names_of_a_repository(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    repo = parse_repo(name)
    assert repo == HubRepo("ann", "Labyrinth_Env.v2")
    assert repo.subdomain == "ann-labyrinth-env-v2"
    assert repo.git_url == "git+https://huggingface.co/spaces/ann/Labyrinth_Env.v2"


@pytest.mark.parametrize(
    "name",
    [
        "echo",
        "a/b/c",
        "../labyrinth",
        "ann/--index-url=x",
        "ann/labyrinth@main",
        "http://localhost:8000",
        "a b/c",
        "http://[",
    ],
)
def test_what_is_no_repository(name: str) -> None:
    assert parse_repo(name) is None


def test_a_url_of_the_hub_that_names_no_space() -> None:
    with pytest.raises(errors.InvalidOptionError, match="spaces/user/name"):
        parse_repo("https://huggingface.co/spaces")


def test_a_space_is_used_where_it_runs(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch, no_pip: None
) -> None:
    monkeypatch.setenv("OPENENV_TOKEN", "of my own servers")
    monkeypatch.setenv("HF_TOKEN", "of my account")
    with FakeOpenEnv() as server:
        hub.spaces["ann/labyrinth"] = {
            "host": server.url,
            "runtime": {"stage": "RUNNING"},
            "sha": SHA,
        }
        for name in ("ann/labyrinth", f"{hub.url}/spaces/ann/labyrinth"):
            client = AutoEnv.from_env(name)
            assert type(client) is GenericEnvClient
            with client.sync() as blocking:
                assert blocking.reset().observation["count"] == 0
            assert "Authorization" not in server.headers
            assert "Authorization" not in hub.headers
        with AutoEnv.from_env("ann/labyrinth", token="for ann") as blocking:
            assert server.headers["Authorization"] == "Bearer for ann"
    assert set(hub.requests) == {"/api/spaces/ann/labyrinth"}
    assert AutoAction.from_env("ann/labyrinth") is GenericAction


def test_a_space_has_the_client_of_the_package_that_is_called_like_it(hub: FakeHub) -> None:
    import echo_env

    assert type(AutoEnv.from_env("ann/echo-env")) is echo_env.EchoEnv
    assert AutoAction.from_env("ann/echo-env") is echo_env.EchoAction
    assert not hub.requests


def test_where_a_space_is(hub: FakeHub) -> None:
    guess = "https://ann-labyrinth-env.hf.space"
    repo = HubRepo("ann", "labyrinth_env")
    path = "/api/spaces/ann/labyrinth_env"
    for body in (b"{", b"[]", b"{}", b'{"host": 3, "sha": "main", "runtime": []}', b"[" * 100_000):
        hub.raw[path] = body
        space = find_space(repo)
        assert (space.url, space.stage, space.commit) == (guess, "", None)
    hub.raw[path] = b'{"host": "https://elsewhere.example/", "sha": "%s"}' % SHA.encode()
    space = find_space(repo)
    assert (space.url, space.commit) == ("https://elsewhere.example", SHA)


def test_a_hub_that_does_not_answer_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    with reserved_port() as port:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
        assert find_space(HubRepo("ann", "labyrinth")).url == "https://ann-labyrinth.hf.space"


def test_a_hub_with_encryption_names_no_space_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.example")
    answer = b'{"host": "http://ann-labyrinth.hf.space"}'
    monkeypatch.setattr(hub_module, "_get", lambda *_: (200, answer))
    assert find_space(HubRepo("ann", "labyrinth")).url == "https://ann-labyrinth.hf.space"


def test_a_space_that_there_is_not(hub: FakeHub) -> None:
    with (
        pytest.raises(errors.UnknownEnvironmentError, match="no Space ann/labyrinth"),
        AutoEnv.from_env("ann/labyrinth"),
    ):
        pass


def test_a_space_that_sleeps_is_woken(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "_ASK_AGAIN_S", 0.01)
    hub.spaces["ann/labyrinth"] = {"host": hub.url, "runtime": {"stage": "SLEEPING"}}
    hub.asleep = 3
    assert str(reach_space(HubRepo("ann", "labyrinth"), 30.0).address) == hub.url
    assert hub.requests.count("/health") == 4


@pytest.mark.parametrize("stage", ["PAUSED", "BUILD_ERROR", "SLEEPING"])
def test_a_space_that_does_not_run(hub: FakeHub, stage: str) -> None:
    hub.spaces["ann/labyrinth"] = {"host": hub.url, "runtime": {"stage": stage}}
    hub.asleep = 1000
    with (
        pytest.raises(errors.ServerUnreachableError, match=stage) as caught,
        AutoEnv.from_env("ann/labyrinth", wait_timeout=0.05),
    ):
        pass
    command = "docker run -p 127.0.0.1:8000:8000 registry.hf.space/ann-labyrinth:latest"
    assert command in str(caught.value)


def test_a_space_cannot_be_started_by_a_provider_of_ours(hub: FakeHub) -> None:
    with pytest.raises(errors.InvalidOptionError, match="docker run"):
        AutoEnv.from_env("ann/labyrinth", container_provider="docker")


# -- installing ---------------------------------------------------------------------------------


@pytest.fixture
def no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is installed, whatever the variable of OpenEnv says."""
    monkeypatch.setenv("OPENENV_TRUST_REMOTE_CODE", "1")

    def run(command: Any, **_: Any) -> None:
        raise AssertionError(f"ran {command}")

    monkeypatch.setattr(subprocess, "run", run)


def test_nothing_is_installed_unasked(hub: FakeHub, no_pip: None) -> None:
    hub.spaces["ann/ludo"] = {"sha": SHA}
    assert type(AutoEnv.from_env("ann/ludo")) is GenericEnvClient
    assert AutoEnv.get_env_class("ann/ludo") is GenericEnvClient
    assert AutoAction.from_hub("ann/ludo") is GenericAction
    for trusting in (True, False):
        client = AutoEnv.from_env("ann/ludo", trust_remote_code=trusting, skip_install=True)
        assert type(client) is GenericEnvClient


def test_a_package_is_installed_on_the_word_of_the_caller(
    hub: FakeHub, install: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.spaces["ann/ludo"] = {"sha": SHA}
    commands = []

    def run(command: list[str], **arguments: Any) -> Any:
        commands.append(command)
        assert arguments["timeout"] > 0 and arguments["stdin"] == subprocess.DEVNULL
        kept = Path(command[command.index("--constraint") + 1]).read_text()
        assert f"numpy=={importlib.metadata.version('numpy')}" in kept.split("\n")
        install()
        found = {"install": [{"requested": True, "metadata": {"name": "openenv_gym-ludo"}}]}
        Path(command[command.index("--report") + 1]).write_text(json.dumps(found))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    client = AutoEnv.from_env("ann/ludo", trust_remote_code=True)
    assert type(client).__name__ == "LudoEnv"
    assert f"git+{hub.url}/spaces/ann/ludo@{SHA}" in commands[0]
    # It is there from now on.
    action = AutoAction.from_env("ann/ludo", trust_remote_code=True)
    assert action.__name__ == "LudoAction"
    assert len(commands) == 1


@pytest.mark.parametrize("sha", [None, "main", "0" * 39], ids=str)
def test_nothing_is_installed_that_has_no_commit(hub: FakeHub, no_pip: None, sha: Any) -> None:
    hub.spaces["ann/ludo"] = {"sha": sha}
    with pytest.raises(errors.ConfigurationError, match="names no commit") as caught:
        AutoEnv.from_env("ann/ludo", trust_remote_code=True)
    assert f"pip install git+{hub.url}/spaces/ann/ludo" in str(caught.value)


def test_a_package_that_cannot_be_installed(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.spaces["ann/ludo"] = {"sha": SHA}

    def run(command: list[str], **_: Any) -> Any:
        return subprocess.CompletedProcess(command, 1, "", "no \x1b[31mgit here")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(errors.ConfigurationError, match="git here") as caught:
        AutoEnv.from_env("ann/ludo", trust_remote_code=True)
    assert "\x1b" not in str(caught.value)
    assert f"-m pip install git+{hub.url}/spaces/ann/ludo@{SHA}" in str(caught.value)
