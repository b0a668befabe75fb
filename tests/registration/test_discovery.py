from __future__ import annotations

import logging
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import pytest

import openenv_gym
from openenv_gym.errors import ManifestError, UnknownEnvironmentError
from openenv_gym.models.manifest import load_manifest
from openenv_gym.registration.catalogue import CatalogueEntry, load_catalogue
from openenv_gym.registration.discovery import (
    discover,
    find_manifest,
    local_gymnasium_entries,
    manifest_entries,
)


if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def _site_on_path(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(site))


def said(caplog: Any) -> list[logging.LogRecord]:
    """Return what this library has logged; the collector may, of what other tests have left."""
    return [each for each in caplog.records if each.name.startswith("openenv_gym")]


def test_an_installed_package_is_found_without_importing_it(install: Callable[..., Path]) -> None:
    install("ludo_env")
    assert discover(load_catalogue()) == {
        "openenv/Ludo-v0": CatalogueEntry(
            id="openenv/Ludo-v0",
            package="ludo_env",
            distribution="openenv-gym-ludo",
            image="openenv-gym-ludo",
            render_modes=("ansi", "rgb_array"),
            render_fps=2,
            max_episode_steps=200,
            reward_threshold=0.5,
            nondeterministic=True,
            kwargs={"opponent": "random", "skill": 3},
            untrusted=True,
        )
    }
    assert "ludo_env" not in sys.modules


def test_manifests_of_the_catalogue_are_not_read(install: Callable[..., Path], caplog: Any) -> None:
    install("echo_env", "this: [is not yaml")
    assert discover(load_catalogue()) == {}
    assert not said(caplog)


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (None, "has no manifest"),
        ("name: [", "is not YAML"),
        ("name: broken_env\nport: -1", "`port` is -1; expected a port"),
    ],
)
def test_a_broken_package_is_named_and_left_out(
    install: Callable[..., Path], caplog: Any, manifest: str | None, reason: str
) -> None:
    install("broken_env", manifest)
    install("ludo_env")
    assert list(discover(load_catalogue())) == ["openenv/Ludo-v0"]
    (record,) = said(caplog)
    assert record.levelno == logging.WARNING
    assert "'broken_env'" in record.getMessage()
    assert reason in record.getMessage()


def test_a_package_that_is_gone(install: Callable[..., Path], caplog: Any) -> None:
    shutil.rmtree(install("gone_env"))
    assert discover(load_catalogue()) == {}
    assert "No environment package 'gone_env' is installed here" in caplog.text


def test_an_entry_point_that_names_no_package(
    install: Callable[..., Path], site: Path, caplog: Any
) -> None:
    install("ludo_env")
    (points,) = site.glob("*.dist-info/entry_points.txt")
    points.write_text(f"{points.read_text()}bad = !not a package!\n")
    assert list(discover(load_catalogue())) == ["openenv/Ludo-v0"]
    assert "Entry point 'bad' ('!not a package!') is left out" in caplog.text


def test_metadata_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    def entry_points(**_: Any) -> None:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "broken")

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    assert discover(load_catalogue()) == {}
    assert "cannot be listed" in caplog.text


@pytest.mark.parametrize(
    ("claimed", "owner"),
    [
        ("CartPole-v1", "package 'gymnasium'"),
        ("CartPole-v7", "package 'gymnasium'"),
        ("Pong-v5", "package 'atari_env'"),
        ("Remote-v0", "this library"),
    ],
)
def test_a_name_of_another_package_is_refused(
    install: Callable[..., Path], caplog: Any, claimed: str, owner: str
) -> None:
    package = install("thief_env", f"name: thief_env\nids: [{{id: {claimed}}}, {{id: Honest-v0}}]")
    assert list(discover(load_catalogue())) == ["openenv/Honest-v0"]
    (record,) = said(caplog)
    assert f"'openenv/{claimed}'" in record.getMessage()
    assert f"belongs to {owner}" in record.getMessage()
    assert str(package / "openenv.yaml") in record.getMessage()


def test_of_two_packages_with_one_name_the_first_by_name_wins(
    install: Callable[..., Path], caplog: Any
) -> None:
    install("b_env", "name: b_env\nids: [{id: Same-v0}]")
    install("a_env", "name: a_env\nids: [{id: Same-v0}, {id: Same-v1}]")
    found = discover(load_catalogue())
    assert {entry.package for entry in found.values()} == {"a_env"}
    assert len(found) == 2
    assert "belongs to package 'a_env'" in caplog.text


def test_find_manifest_of_a_package_on_the_path_only(site: Path) -> None:
    site.joinpath("loose_env").mkdir(parents=True)
    site.joinpath("loose_env", "openenv.yaml").write_text("name: loose_env")
    manifest, path = find_manifest("loose_env")
    assert manifest.name == "loose_env"
    assert path == site / "loose_env" / "openenv.yaml"


def test_find_manifest_below_a_package(install: Callable[..., Path]) -> None:
    inner = install("outer", None) / "inner_env"
    inner.mkdir()
    inner.joinpath("openenv.yaml").write_text("name: inner_env")
    assert find_manifest("outer.inner_env")[0].name == "inner_env"
    assert "outer" not in sys.modules


@pytest.mark.parametrize("package", ["no_such_env", "", ".relative", "no.such.env"])
def test_find_manifest_of_an_unknown_package(package: str) -> None:
    with pytest.raises(UnknownEnvironmentError, match="is installed here") as caught:
        find_manifest(package)
    assert "PYTHONPATH" in str(caught.value)


@pytest.mark.parametrize("package", ["json", "this"])
def test_find_manifest_of_another_package(package: str) -> None:
    with pytest.raises(ManifestError, match=r"expected openenv\.yaml in"):
        find_manifest(package)


@pytest.mark.parametrize(
    "package",
    ["atari_env", "echo_env", "grid_world_env", "maze_env", "snake_env", "textarena_env"],
)
def test_our_manifests_say_what_the_catalogue_says(package: str) -> None:
    path = Path(openenv_gym.__file__).parents[1] / "envs" / package / "openenv.yaml"
    if not path.exists():
        pytest.skip("not a checkout")
    entries = manifest_entries(load_manifest(path), package)
    assert entries
    for entry in entries:
        assert load_catalogue().entries[entry.id] == entry


def test_ids_of_another_gymnasium_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = load_catalogue()
    spec = replace(gymnasium.spec("CartPole-v1"), id="CartPole-v9", max_episode_steps=7)
    monkeypatch.setitem(gymnasium.registry, spec.id, spec)
    users = gymnasium.envs.registration.EnvSpec("Mine-v0", "mine.envs:Mine")
    monkeypatch.setitem(gymnasium.registry, users.id, users)

    extra = local_gymnasium_entries(catalogue)

    assert "openenv/Mine-v0" not in extra
    assert not any(env_id.startswith("openenv/GymV2") for env_id in extra)
    assert extra["openenv/CartPole-v9"] == CatalogueEntry(
        id="openenv/CartPole-v9",
        package="gymnasium",
        distribution="openenv-gym",
        image="openenv-gym-gymnasium",
        hosted="CartPole-v9",
        max_episode_steps=7,
        reward_threshold=475.0,
    )
