"""Environment packages that exist for one test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest


if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LUDO = """
spec_version: 1
name: ludo_env
version: 1.2.0
license: GPL-3.0-or-later
untrusted: true
ids:
  - id: Ludo-v0
    kwargs: {opponent: random, skill: 3}
    render_modes: [ansi, rgb_array]
    render_fps: 2
    max_episode_steps: 200
    reward_threshold: 0.5
    nondeterministic: true
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path / "site"


@pytest.fixture
def install(site: Path) -> Callable[..., Path]:
    """Put a package and its metadata into `site`, as pip would; importing it is an error."""

    def install(package: str, manifest: str | None = LUDO) -> Path:
        directory = site / package
        directory.mkdir(parents=True)
        directory.joinpath("__init__.py").write_text("raise RuntimeError('imported')\n")
        if manifest is not None:
            directory.joinpath("openenv.yaml").write_text(manifest)
        name = f"openenv-gym-{package.removesuffix('_env')}"
        info = site / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        info.joinpath("entry_points.txt").write_text(
            f"[openenv_gym.environments]\n{package} = {package}\n"
        )
        return directory

    return install
