"""Images: when they are built, and what is said where they cannot be."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym._version import __version__
from openenv_gym.providers.docker.images import (
    BASE_IMAGE_VARIABLE,
    BaseImages,
    build_base,
    ensure_image,
    find_image,
    image_name,
)
from tests.support.engines import archive_of
from tests.support.images import image, package_in, run_inside


ROOT = Path(__file__).parents[3]
BUILDING = pytest.mark.timeout(600)  # the first test that needs an image has it built

MakePackage = Callable[..., Path]


@pytest.fixture
def make_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, docker: Any
) -> Iterator[MakePackage]:
    """Return a function that makes an environment package of a name of its own, on sys.path."""
    monkeypatch.syspath_prepend(tmp_path)
    made: list[str] = []

    def make(dockerfile: str, **files: str) -> Path:
        folder = package_in(tmp_path, dockerfile, files)
        made.append(folder.name)
        return folder

    yield make
    for name in made:
        stage = f"{BaseImages().build}-{name.removesuffix('_env')}"
        for reference in (image_name(name), stage):
            if docker.api.images(reference):
                docker.images.remove(reference)


@pytest.fixture
def labelled(docker: Any) -> Iterator[Callable[..., str]]:
    """Return a function that makes an empty image with some labels, and returns its name."""
    made: list[str] = []

    def make(name: str | None = None, **labels: str) -> str:
        name = name or f"openenv-gym-test:{uuid.uuid4().hex}"
        made.append(name)
        lines = [f'LABEL openenv.{key}="{value}"' for key, value in labels.items()]
        text = "\n".join(["FROM scratch", f"LABEL test={uuid.uuid4().hex}", *lines])
        context = archive_of({"Dockerfile": text.encode()})
        list(docker.api.build(fileobj=context, custom_context=True, tag=name, rm=True))
        return name

    yield make
    for name in made:
        if docker.api.images(name):
            docker.images.remove(name)


# -- names and options ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("package", "name", "expected"),
    [
        ("atari_env", None, f"openenv-gym-atari:{__version__}"),
        ("gymnasium", None, f"openenv-gym-gymnasium:{__version__}"),
        ("My_Chess_env", None, f"openenv-gym-my-chess:{__version__}"),
        ("lab.maze_env", None, f"openenv-gym-lab-maze:{__version__}"),
        ("chess_env", "chess-server", f"chess-server:{__version__}"),
        ("chess_env", "chess-server:7", "chess-server:7"),
        ("chess_env", "host:5000/chess", f"host:5000/chess:{__version__}"),
        ("chess_env", "host:5000/chess:7", "host:5000/chess:7"),
        ("chess_env", "chess@sha256:" + "0" * 64, "chess@sha256:" + "0" * 64),
    ],
)
def test_names(package: str, name: str | None, expected: str) -> None:
    assert image_name(package, name) == expected


def test_an_unknown_choice_names_those_there_are() -> None:
    with pytest.raises(errors.InvalidOptionError, match='"auto", "never", "always"') as caught:
        ensure_image(None, "echo_env", build="sometimes")
    assert caught.value.field == "build"


def test_importing_the_library_imports_no_container_client() -> None:
    code = "import sys, openenv_gym; print([n for n in sys.modules if 'docker' in n.split('.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


# -- when they are built --------------------------------------------------------------------------


TRIVIAL = """
    ARG BASE_IMAGE
    FROM ${BASE_IMAGE} AS build
    ARG PIP_INDEX_URL
    COPY data /opt/data
    RUN echo "asking for ${PIP_INDEX_URL}"
    FROM ${BASE_IMAGE}
    COPY --from=build /opt/data /opt/data
"""


@BUILDING
def test_it_is_built_once_and_again_when_the_source_has_changed(
    docker: Any, make_package: MakePackage, monkeypatch: pytest.MonkeyPatch
) -> None:
    image("base")
    monkeypatch.setenv("PIP_INDEX_URL", "https://user:secret@index.invalid/simple")
    folder = make_package(TRIVIAL, data="first")
    package, said = folder.name, []
    assert find_image(docker, package).state == "missing"
    name = ensure_image(docker, package, say=said.append)
    assert name == image_name(package)
    assert find_image(docker, package).state == "current"
    assert any("step" in line and "COPY data" in line for line in said)
    first = docker.images.get(name)
    assert "secret" not in f"{first.attrs} {first.history()}"

    said.clear()
    assert ensure_image(docker, package, build="never", say=said.append) == name
    assert ensure_image(docker, package, say=said.append) == name
    assert said == []

    (folder / "data").write_text("second")
    assert find_image(docker, package).state == "stale"
    with pytest.raises(errors.ImageVersionError, match=f"docker build {package}"):
        ensure_image(docker, package, build="never")
    ensure_image(docker, package, say=said.append)
    assert any("another source" in line for line in said)
    assert run_inside(docker, name, "print(open('/opt/data').read())") == "second"
    # Nobody uses the first any more, so it is gone.
    assert not [entry for entry in docker.api.images(all=True) if entry["Id"] == first.id]

    second = docker.images.get(name).id
    ensure_image(docker, package, build="always", say=said.append)
    assert docker.images.get(name).id == second  # built from what is there, with the same result


@BUILDING
def test_processes_that_need_the_same_image_build_it_once(
    docker: Any, make_package: MakePackage
) -> None:
    image("base")
    folder = make_package(TRIVIAL, data="x")
    code = (
        f"import sys, docker; sys.path.insert(0, {str(folder.parent)!r})\n"
        "from openenv_gym.providers.docker.images import ensure_image\n"
        f"ensure_image(docker.from_env(), {folder.name!r})"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = "".join(process.communicate()[1] for process in processes)
    assert [process.returncode for process in processes] == [0, 0], said
    assert said.count(f"{image_name(folder.name)} is ready") == 1


@BUILDING
def test_a_failed_build_shows_its_end_and_leaves_nothing(
    docker: Any, make_package: MakePackage
) -> None:
    image("base")
    mark = uuid.uuid4().hex
    folder = make_package(
        f"""
        ARG BASE_IMAGE
        FROM ${{BASE_IMAGE}}
        LABEL test={mark}
        COPY pyproject.toml /
        RUN seq 100 && echo what-went-wrong >&2 && exit 3
        """
    )
    with pytest.raises(errors.ImageBuildError, match=r"at step 5/\d+ \(RUN seq") as caught:
        ensure_image(docker, folder.name, say=lambda line: None)
    assert "what-went-wrong" in caught.value.log
    assert len(caught.value.log.splitlines()) <= 31
    assert caught.value.data["image"] == image_name(folder.name)
    assert docker.api.images(all=True, filters={"label": f"test={mark}"}) == []
    with pytest.raises(errors.ImageNotFoundError):
        ensure_image(docker, folder.name, build="never")


@BUILDING
def test_a_full_disk_is_told_from_other_failures(docker: Any, make_package: MakePackage) -> None:
    image("base")
    folder = make_package(
        """
        ARG BASE_IMAGE
        FROM ${BASE_IMAGE}
        RUN echo "write /opt/x: No space left on device" >&2 && exit 1
        """
    )
    with pytest.raises(errors.OutOfDiskError, match="docker system df"):
        ensure_image(docker, folder.name, say=lambda line: None)


def test_a_dockerfile_that_is_none_fails_as_a_build(
    docker: Any, make_package: MakePackage, monkeypatch: pytest.MonkeyPatch
) -> None:
    image("base")
    folder = make_package("FORM nothing\n")
    with pytest.raises(errors.ImageBuildError, match="FORM"):
        ensure_image(docker, folder.name, say=lambda line: None)


def test_without_python_to_build_on_the_variable_is_named(
    docker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BASE_IMAGE_VARIABLE, "localhost:1/python:none")
    names = BaseImages(run=f"openenv-gym-test:{uuid.uuid4().hex}", build="openenv-gym-test:none")
    with pytest.raises(errors.ImageBuildError, match=BASE_IMAGE_VARIABLE) as caught:
        build_base(docker, names, say=lambda line: None)
    assert "python3 dev.py images" in str(caught.value)


# -- images that are missing or of another make ---------------------------------------------------


def test_a_missing_image_comes_with_the_command_that_builds_it(
    docker: Any, make_package: MakePackage
) -> None:
    package = make_package(TRIVIAL).name
    command = f"python -m openenv_gym.providers.docker build {package}"
    with pytest.raises(errors.ImageNotFoundError, match=command) as caught:
        ensure_image(docker, package, build="never")
    assert caught.value.data["image"] == image_name(package)


def test_a_package_that_is_not_here_is_named(docker: Any) -> None:
    package = f"absent{uuid.uuid4().hex[:8]}_env"
    expected = f"pip install openenv-gym-{package.removesuffix('_env')}"
    with pytest.raises(errors.ImageNotFoundError, match=expected):
        ensure_image(docker, package, say=lambda line: None)


def test_a_package_without_a_dockerfile_says_what_it_lacks(
    docker: Any, make_package: MakePackage
) -> None:
    folder = make_package(TRIVIAL)
    (folder / "server" / "Dockerfile").unlink()
    with pytest.raises(errors.ImageNotFoundError, match=r"lacks server/Dockerfile.*package data"):
        ensure_image(docker, folder.name, say=lambda line: None)


def test_an_image_of_somebody_is_pulled_and_never_built(docker: Any) -> None:
    said: list[str] = []
    with pytest.raises(errors.ImageNotFoundError, match="cannot be pulled"):
        ensure_image(docker, "echo_env", image="localhost:1/nothing:1", say=said.append)
    assert said == ["pulling localhost:1/nothing:1 ..."]
    with pytest.raises(errors.ImageNotFoundError, match="is not here"):
        ensure_image(docker, "echo_env", image="localhost:1/nothing:1", build="never")


def test_an_image_of_another_version_is_refused(docker: Any, labelled: Callable[..., str]) -> None:
    name = labelled(version="0.0.1")
    with pytest.raises(
        errors.ImageVersionError, match=rf"0\.0\.1, and {__version__} runs"
    ) as caught:
        ensure_image(docker, "echo_env", image=name)
    assert caught.value.data == {"image": name, "version": "0.0.1", "expected": __version__}
    assert ensure_image(docker, "echo_env", image=labelled(version=__version__))


def test_an_image_that_does_not_say_is_taken_by_its_id_alone(
    docker: Any, labelled: Callable[..., str]
) -> None:
    name = labelled()
    with pytest.raises(errors.ImageVersionError, match=f"openenv.version={__version__}"):
        ensure_image(docker, "echo_env", image=name)
    identity = docker.images.get(name).id
    assert ensure_image(docker, "echo_env", image=identity) == identity


def test_an_image_built_by_hand_is_taken_whatever_its_source(
    docker: Any, labelled: Callable[..., str], make_package: MakePackage
) -> None:
    # Its labels are those of the base that it was built on.
    package = make_package(TRIVIAL).name
    labelled(image_name(package), version=__version__, source="openenv-gym@0123")
    assert find_image(docker, package).state == "current"
    docker.images.remove(image_name(package))
    labelled(image_name(package), version=__version__, source=f"{package}@0123")
    assert find_image(docker, package).state == "stale"


def test_what_cannot_be_built_here_is_not_called_missing(
    docker: Any, labelled: Callable[..., str]
) -> None:
    package = f"absent{uuid.uuid4().hex[:8]}_env"
    labelled(image_name(package), version="0.0.1")
    with pytest.raises(errors.ImageVersionError, match=r"holds openenv-gym 0\.0\.1"):
        ensure_image(docker, package, say=lambda line: None)


# -- the command ----------------------------------------------------------------------------------


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "openenv_gym.providers.docker", *arguments],
        capture_output=True,
        text=True,
    )


@BUILDING
def test_the_command_builds_and_lists(docker: Any) -> None:
    image("atari_env")
    done = command("build", "atari")
    assert done.returncode == 0, done.stderr
    assert f"openenv-gym-atari:{__version__}" in done.stdout
    assert "GPL-2.0-only" in done.stdout
    listed = command("images")
    assert f"openenv-gym-base:{__version__}" in listed.stdout, listed.stderr
    failed = command("build", "absent_env")
    assert failed.returncode == 1
    assert failed.stderr.startswith("ImageNotFoundError: No environment package 'absent_env'")


def test_images_without_a_name_are_not_listed(docker: Any, labelled: Callable[..., str]) -> None:
    # As there are while another process builds.
    name = labelled(version=__version__)
    nameless = docker.api.inspect_image(name)["Id"]
    assert labelled(name, version="0.0.1") == name
    try:
        listed = command("images")
        assert listed.returncode == 0, listed.stderr
        assert name in listed.stdout
        assert "none" not in listed.stdout
    finally:
        docker.api.remove_image(nameless)


@pytest.mark.parametrize("name", ["Lab/Atari:1", "atari env:1", "<none>:<none>"])
def test_what_no_image_can_be_called(docker: Any, name: str) -> None:
    with pytest.raises(
        errors.InvalidOptionError, match=f"No image can be called '{name}'"
    ) as caught:
        ensure_image(docker, "atari_env", image=name)
    assert caught.value.field == "image"


# -- without a checkout ----------------------------------------------------------------------------


@pytest.mark.timeout(300)
def test_an_installed_library_builds_the_same_images(tmp_path: Path) -> None:
    source, wheels, site = tmp_path / "source", tmp_path / "wheels", tmp_path / "site"
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("openenv_gym", "servers", "envs/echo_env"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=skip)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(wheels)]
    subprocess.run([*pip, ".", "./envs/echo_env"], cwd=source, check=True)
    for wheel in wheels.iterdir():
        zipfile.ZipFile(wheel).extractall(site)
    code = (
        "from openenv_gym.providers.docker import contexts as c\n"
        "print(c.is_checkout(), *(c.context_of(n).digest() for n in ('echo_env', 'gymnasium')))\n"
        "print({n: s for n, s in c.library_context().files.items() if type(s) is bytes})\n"
        "print(c.library_context().digest())"
    )
    # Modes are lost by `extractall`; pip keeps them.
    (site / "openenv_gym/servers/base/openenv-install").chmod(0o755)
    here, there = (
        subprocess.run(
            [sys.executable, "-c", code],
            cwd="/",
            env={**os.environ, "PYTHONPATH": str(path)},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        ).stdout.partition(" ")
        for path in (ROOT / "envs", site)
    )
    assert (here[0], there[0]) == ("True", "False")
    assert here[2] == there[2]
