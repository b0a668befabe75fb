"""A daemon that is not there, may not be used, or has no space left."""

from __future__ import annotations

import gc
import socket
import sys
import textwrap
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import openenv_gym  # noqa: F401  # registers the ids
from openenv_gym import errors
from openenv_gym._version import __version__
from openenv_gym.providers import DockerProvider, ServerTarget
from tests.support.engines import archive_of, forbidden_daemon, run_as_nobody, small_engine
from tests.support.processes import count_descriptors


pytestmark = pytest.mark.container


def test_no_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody")
    with pytest.raises(errors.ProviderUnavailableError, match=f"No Docker.*{tmp_path}") as caught:
        gymnasium.make("openenv/Echo-v0", provider="docker")
    assert "DOCKER_HOST" in str(caught.value)


def test_without_docker_py(monkeypatch: pytest.MonkeyPatch) -> None:
    from openenv_gym.providers.docker import daemon

    monkeypatch.setattr(daemon, "_client", None)
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(errors.ProviderUnavailableError, match=r"openenv-gym\[docker\]"):
        daemon.connect_daemon()


def test_no_permission() -> None:
    code = """
        import gymnasium, openenv_gym
        try:
            gymnasium.make("openenv/Echo-v0", provider="docker")
        except openenv_gym.errors.ProviderPermissionError as error:
            assert isinstance(error, PermissionError)
            print(error)
    """
    with forbidden_daemon() as host:
        done = run_as_nobody(textwrap.dedent(code), {"DOCKER_HOST": host})
    assert "This user may not use the Docker daemon" in done.stdout, done.stderr
    assert "group docker" in done.stdout


def test_no_space_for_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    dockerfile = f"FROM scratch\nLABEL openenv.version={__version__}\nCOPY file /\n"
    with small_engine(32 << 20) as engine:
        list(
            engine.client.api.build(
                fileobj=archive_of({"Dockerfile": dockerfile.encode(), "file": b"x"}),
                custom_context=True,
                tag="tiny:1",
                decode=True,
            )
        )
        monkeypatch.setenv("DOCKER_HOST", engine.host)
        engine.fill()
        provider = DockerProvider(image="tiny:1", build="never")
        with pytest.raises(errors.OutOfDiskError, match="disk is full") as caught:
            provider.start(ServerTarget("echo_env"))
        assert caught.value.data["image"] == "tiny:1"
        engine.relieve()


# -- the choice that "auto" makes -----------------------------------------------------------------


@pytest.fixture
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    from openenv_gym.providers import auto

    monkeypatch.setattr(auto, "_said", set())
    monkeypatch.delenv("OPENENV_PROVIDER", raising=False)


def where(env: Any) -> str:
    found = str(env.unwrapped.openenv.connection.address)
    env.close()
    return found


@pytest.mark.usefixtures("_fresh")
def test_auto_takes_a_container_and_says_so_once(
    docker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    from tests.support.images import image

    image("echo_env")
    assert where(gymnasium.make("openenv/Echo-v0")).startswith("docker:openenv-gym-echo:")
    assert where(gymnasium.make("openenv/Echo-v0")).startswith("docker:")
    (said,) = [record.message for record in caplog.records if record.name == "openenv_gym"]
    assert said == "echo_env runs in a container of its own, without a network."


@pytest.mark.usefixtures("_fresh")
@pytest.mark.parametrize("reason", ["no daemon", "no image", "another version"])
def test_auto_takes_a_process_otherwise_and_says_why_once(
    reason: str,
    docker: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from openenv_gym.providers.docker import images

    expected = {
        "no daemon": "no Docker daemon is here",
        "no image": "is not here",
        "another version": "holds openenv-gym",
    }[reason]
    if reason == "no daemon":
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody")
    elif reason == "no image":
        monkeypatch.setattr(images, "__version__", "0.0.0.dev1")
    else:
        from tests.support.images import image

        image("echo_env")
        monkeypatch.setattr(
            images, "image_name", lambda package, image=None: f"openenv-gym-echo:{__version__}"
        )
        monkeypatch.setattr(images, "__version__", "9.9.9")
    for _ in range(2):
        assert where(gymnasium.make("openenv/Echo-v0")).startswith("process:echo_env")
    (said,) = [record.message for record in caplog.records if record.name == "openenv_gym"]
    assert "nothing isolates it" in said
    assert expected in said


def test_a_daemon_that_accepts_and_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from openenv_gym.providers.docker import daemon

    monkeypatch.setattr(daemon, "_HELLO_S", 0.2)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/mute")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{tmp_path}/mute")
        listener.listen()
        with pytest.raises(errors.ProviderUnavailableError, match="No Docker daemon answers"):
            daemon.connect_daemon()


def test_connections_to_the_daemon_are_shared(docker: Any) -> None:
    """docker-py keeps some for each path, and containers have paths of their own."""
    from openenv_gym.providers.docker import daemon

    client = daemon._make_client(sys.modules["docker"], daemon.daemon_address(), 30)
    try:
        client.ping()
        gc.collect()
        before = count_descriptors()  # those of earlier tests may go meanwhile
        for number in range(30):
            with pytest.raises(sys.modules["docker"].errors.NotFound):
                client.api.inspect_container(f"nobody-{number}")
        assert count_descriptors() <= before
    finally:
        client.close()
