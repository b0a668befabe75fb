"""Servers in virtual environments that uv made: other versions side by side. Need an index."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.client import Connection
from openenv_gym.providers import ServerTarget, UvProvider
from openenv_gym.providers.uv.venvs import find_uv


pytestmark = [pytest.mark.uv, pytest.mark.timeout(600)]

APP = """
import sys

import gymnasium
import numpy

from openenv_gym.server import create_app


class Versions(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(10)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return int(self.np_random.integers(10)), {}

    def step(self, action):
        info = {"python": list(sys.version_info[:2]), "numpy": numpy.__version__}
        return int(self.np_random.integers(10)), 1.0, False, False, info


app = create_app(Versions)
"""


def _other_python(version: str) -> str:
    """Return an interpreter of a version; the test is skipped where there is none."""
    places = [
        shutil.which(f"python{version}"),
        *(Path(sys.base_prefix).parent.glob(f"{version}.*/bin/python")),  # as pyenv lays them out
    ]
    for place in places:
        if place and "shims" not in str(place):
            return str(place)
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    pytest.skip(f"there is no Python {version} here")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    try:
        find_uv()
    except errors.ProviderUnavailableError as error:
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as patch:
        directory = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(directory))
        yield directory


def _package(folder: Path, *, python: str, numpy: str) -> Path:
    folder.mkdir()
    (folder / "versions_env").mkdir()
    (folder / "versions_env" / "__init__.py").write_text(APP)
    (folder / "pyproject.toml").write_text(
        f"""\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "versions-env"
version = "0.1.0"
requires-python = "{python}"
dependencies = ["openenv-gym", "numpy{numpy}"]

[tool.setuptools]
packages = ["versions_env"]
"""
    )
    return folder


def _made(cache: Path) -> list[str]:
    found = (cache / "openenv-gym" / "uv").glob("versions_env-*")
    return sorted(path.name for path in found if path.is_dir())


def test_conflicting_versions_in_one_rollout(tmp_path: Path, cache: Path) -> None:
    old = _package(tmp_path / "old", python="==3.10.*", numpy="<2")
    new = _package(tmp_path / "new", python="==3.12.*", numpy=">=2")
    providers = [
        UvProvider(old, python=_other_python("3.10")),
        UvProvider(new, python=_other_python("3.12")),
    ]
    servers: list[Any] = []
    try:
        for provider in providers:
            servers.append(provider.start(ServerTarget("versions_env:app")))
        sessions = [Connection(each.address, {}, why_lost=each.why_lost) for each in servers]
        observations = [[session.call("reset", [7, None]).value[0]] for session in sessions]
        infos: list[Any] = []
        for _ in range(5):
            for session, seen in zip(sessions, observations, strict=True):
                observation, *_, info = session.call("step", [1]).value
                seen.append(observation)
                infos.append(info)
        for session in sessions:
            session.close()
    finally:
        for server in servers:
            server.stop()
    assert [info["python"] for info in infos[:2]] == [[3, 10], [3, 12]]
    assert infos[0]["numpy"] < "2" <= infos[1]["numpy"]
    assert observations[0] == observations[1]
    made = _made(cache)
    assert len(made) == 2
    before = (cache / "openenv-gym" / "uv" / made[0] / "openenv-ready").stat().st_mtime_ns
    again = providers[0].start(ServerTarget("versions_env:app"))
    again.stop()
    assert _made(cache) == made
    after = (cache / "openenv-gym" / "uv" / made[0] / "openenv-ready").stat().st_mtime_ns
    assert before == after


def test_dependencies_that_cannot_be_met(tmp_path: Path, cache: Path) -> None:
    folder = _package(tmp_path / "none", python=">=3.10", numpy="<1.5")
    with pytest.raises(errors.ServerStartError, match=r"(?s)uv cannot install.*numpy") as caught:
        UvProvider(folder).start(ServerTarget("versions_env:app"))
    assert "numpy" in caught.value.log


def test_a_python_that_is_not_here(cache: Path) -> None:
    with pytest.raises(errors.ProviderUnavailableError, match="Python 3.99"):
        UvProvider(python="3.99").start(ServerTarget("echo_env"))


def test_a_python_that_is_named_by_a_path(tmp_path: Path, cache: Path) -> None:
    nowhere = tmp_path / "bin" / "python"
    with pytest.raises(errors.ProviderUnavailableError, match=str(nowhere)):
        UvProvider(python=nowhere).start(ServerTarget("echo_env"))
