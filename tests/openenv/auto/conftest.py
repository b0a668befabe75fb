"""Environment packages, and a Hub, that exist for one test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gymnasium.envs.registration import registry

from openenv_gym.registration import forget_environments
from tests.support.fake_hub import FakeHub


LUDO = "name: ludo_env\nversion: 1.2.0\ndescription: A game.\nids: [{id: Ludo-v0}]\n"

CODE = """
from pydantic import Field
from openenv_gym import Action, EnvClient

class LudoAction(Action):
    move: str = Field(max_length=5)

class LudoEnv(EnvClient):
    action_model = LudoAction
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory that packages are installed in."""
    directory = tmp_path / "site"
    directory.mkdir()
    monkeypatch.syspath_prepend(str(directory))
    before, ids = set(sys.modules), set(registry)
    forget_environments()
    yield directory
    forget_environments()
    for added in set(registry) - ids:
        del registry[added]
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(directory) in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]


@pytest.fixture
def install(site: Path) -> Callable[..., Path]:
    """Install a package as pip would."""

    def install(
        package: str = "ludo_env",
        *,
        manifest: str | None = LUDO,
        init: str = "",
        client: str | None = CODE,
        distribution: str | None = None,
    ) -> Path:
        directory = site / package
        directory.mkdir()
        (directory / "__init__.py").write_text(init)
        if client is not None:
            (directory / "client.py").write_text(client)
        if manifest is not None:
            (directory / "openenv.yaml").write_text(manifest)
        name = distribution or f"openenv-gym-{package.removesuffix('_env')}"
        info = site / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        if distribution is None:
            (info / "entry_points.txt").write_text(
                f"[openenv_gym.environments]\n{package} = {package}\n"
            )
        forget_environments()
        return directory

    return install


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with FakeHub() as fake:
        monkeypatch.setenv("HF_ENDPOINT", fake.url)
        yield fake
