"""``openenv-gym build``: an image of a package that is not installed; bad input is named."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from openenv_gym.cli.init import write_package
from openenv_gym.cli.main import main
from openenv_gym.client import Connection
from openenv_gym.providers import DockerProvider, ServerTarget
from openenv_gym.providers.docker.images import BASE_IMAGE_VARIABLE, BaseImages
from tests.support.images import image, python_image
from tests.support.interrupting import interrupt
from tests.support.registry import image_registry
from tests.support.waiting import eventually


def _build(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["build", *map(str, arguments)])


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return write_package(f"m{uuid.uuid4().hex[:8]}_env", tmp_path, "basic")


@pytest.fixture
def built(package: Path, docker: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a package whose images are removed afterwards; the base is there."""
    monkeypatch.setenv(BASE_IMAGE_VARIABLE, os.environ.get(BASE_IMAGE_VARIABLE) or python_image())
    image("base")
    yield package
    stem = package.name.removesuffix("_env")
    for each in docker.api.images():
        for name in each["RepoTags"] or ():
            if stem in name and BaseImages().run != name:
                with contextlib.suppress(Exception):
                    docker.images.remove(name, force=True)


@pytest.mark.timeout(600)
def test_a_package_that_is_not_installed(built: Path, docker: Any) -> None:
    done = _build(built, "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert facts["package"] == built.name and facts["ids"][0].startswith("openenv/M")
    assert "building" in done.stderr
    server = DockerProvider(image=facts["image"], build="never").start(ServerTarget(built.name))
    try:
        session = Connection(
            server.address, {"size": 2}, token=server.token, connect_timeout_s=60, timeout_s=60
        )
        observation, _ = session.call("reset", [1, None]).value
        assert {int(observation["position"]), int(observation["goal"])} == {0, 1}
        session.close()
    finally:
        server.stop()


@pytest.mark.timeout(600)
def test_it_begins_with_the_python_that_is_named(built: Path, docker: Any) -> None:
    python = f"openenv-gym-test:{built.name}"  # the usual one by another name
    docker.api.tag(os.environ[BASE_IMAGE_VARIABLE], *python.split(":"))
    base = BaseImages.on(python)
    done = _build(built, "--python", python, "--json")
    assert done.exit_code == 0, done.output
    made = json.loads(done.stdout)["image"]
    layers = [docker.api.inspect_image(name)["RootFS"]["Layers"] for name in (base.run, made)]
    assert layers[1][: len(layers[0])] == layers[0]
    for name in (base.run, base.build):
        docker.images.remove(name)
    assert _build(built, "--python", "No Image").exit_code == 1


@pytest.mark.timeout(600)
def test_a_build_that_fails_leaves_no_image(built: Path, docker: Any) -> None:
    (built / "pyproject.toml").write_text("[project\n")
    done = _build(built, "-t", f"{built.name}:broken")
    assert done.exit_code == 1 and "could not build" in done.stderr
    assert not docker.api.images(f"{built.name}:broken")


@pytest.mark.timeout(600)
def test_ctrl_c_leaves_neither_an_image_nor_a_container(built: Path, docker: Any) -> None:
    mark = f"sleep-{built.name}"
    path = built / "server" / "Dockerfile"
    path.write_text(path.read_text().replace("RUN openenv-install", f"RUN sleep 600; : {mark};"))

    def running() -> list[Any]:
        found = docker.api.containers(filters={"status": "running"})
        return [each for each in found if mark in each["Command"]]

    said = interrupt("build", str(built), "-t", f"{built.name}:x", once=lambda: running() != [])
    assert "building" in said
    assert eventually(lambda: running() == [])
    assert not docker.api.images(f"{built.name}:x")


@pytest.mark.timeout(600)
def test_a_registry_that_is_not_there(built: Path, docker: Any) -> None:
    stem = built.name.removesuffix("_env")
    done = _build(built, "-t", f"127.0.0.1:9/{stem}:1", "--push")
    assert done.exit_code == 1
    assert "cannot be pushed" in done.stderr and "docker login" in done.stderr


@pytest.mark.timeout(600)
def test_a_registry(
    built: Path, docker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "registry"
    folder.mkdir()
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "nobody"))
    with image_registry(folder) as registry:
        push = ["push", str(built), "--registry", f"{registry.address}/me", "--json"]
        done = CliRunner().invoke(main, push)
        assert done.exit_code == 1
        assert "cannot be pushed" in done.stderr and "docker login" in done.stderr
        monkeypatch.setenv("DOCKER_CONFIG", str(registry.login))
        done = CliRunner().invoke(main, push)
        assert done.exit_code == 0, done.output
        facts = json.loads(done.stdout)
        name, _, tag = facts["image"].removeprefix(f"{registry.address}/").rpartition(":")
        assert registry.tags(name) == [tag] and facts["digest"].startswith("sha256:")

        mine = f"{registry.address}/{built.name}:mine"
        done = _build(built, "-t", mine, "--push", "--json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["digest"].startswith("sha256:")
        assert registry.tags(built.name) == ["mine"]

        # Another machine has neither.
        for image_here in (mine, facts["image"]):
            docker.images.remove(image_here, force=True)
        server = DockerProvider(image=facts["image"]).start(ServerTarget(built.name))
        server.stop()
        digest = docker.images.get(facts["image"]).attrs["RepoDigests"]
        assert f"{registry.address}/{name}@{facts['digest']}" in digest


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--build-arg", "EXTRAS"], "NAME=VALUE"),
        (["--push"], "name of a registry"),
        (["--push", "-t", "burrow:1"], "name of a registry"),
    ],
)
def test_wrong_usage(arguments: list[str], told: str, package: Path) -> None:
    done = _build(package, *arguments)
    assert done.exit_code == 2 and told in done.stderr


def test_a_folder_without_an_environment(tmp_path: Path) -> None:
    done = _build(tmp_path)
    assert done.exit_code == 2 and "openenv-gym init" in done.stderr
    assert _build(tmp_path / "nowhere").exit_code == 2


def test_a_manifest_that_does_not_hold(package: Path) -> None:
    (package / "openenv.yaml").write_text("name: [1]\n")
    done = _build(package)
    assert done.exit_code == 1 and "`name` is [1]" in done.stderr
