from __future__ import annotations

import importlib
import importlib.metadata
import json
import math
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from openenv_gym.registration import catalogue, generate
from openenv_gym.registration.catalogue import CatalogueEntry, base_name, expand, load_catalogue


FILE = Path(catalogue.__file__).with_name("catalogue.json")


@pytest.fixture(scope="module")
def installed() -> dict[str, Any]:
    pytest.importorskip("ale_py")
    return generate.build()


def test_the_file_is_what_the_installed_packages_give(installed: dict[str, Any]) -> None:
    if installed["versions"] == load_catalogue().versions:
        assert generate.dump(installed) == FILE.read_text(encoding="utf-8"), (
            "run python -m openenv_gym.registration.generate"
        )
        return
    # With other versions, what both know must agree.
    entries = expand(installed).entries
    common = entries.keys() & load_catalogue().entries.keys()
    assert len(common) > 300
    assert {name: entries[name] for name in common} == {
        name: load_catalogue().entries[name] for name in common
    }


def test_every_original_id_is_there(installed: dict[str, Any]) -> None:
    if installed["versions"] != load_catalogue().versions:
        pytest.skip("the catalogue is of other versions")
    hosted = {entry.hosted for entry in load_catalogue().entries.values()}
    for spec in list(gymnasium.registry.values()):
        module = str(getattr(spec.entry_point, "__module__", spec.entry_point))
        if spec.id.startswith("GymV2"):
            assert spec.id not in hosted
        elif module.startswith("gymnasium.envs"):
            assert spec.id in hosted
        elif module.startswith("ale_py"):
            assert f"ale_py:{spec.id}" in hosted


def test_specs_are_those_of_the_originals(installed: dict[str, Any]) -> None:
    compared = 0
    for entry in load_catalogue().entries.values():
        original = gymnasium.registry.get((entry.hosted or "").rpartition(":")[2])
        if original is None:
            continue
        compared += 1
        ours = gymnasium.spec(entry.id)
        for field in (
            "max_episode_steps",
            "reward_threshold",
            "nondeterministic",
            "order_enforce",
            "disable_env_checker",
        ):
            assert getattr(ours, field) == getattr(original, field), (entry.id, field)
        assert ours.kwargs == json.loads(json.dumps(original.kwargs)), entry.id
    assert compared > 300


@pytest.mark.parametrize(
    "env_id",
    ["CartPole-v1", "Pendulum-v1", "MountainCar-v0", "Acrobot-v1", "Taxi-v4", "FrozenLake-v1"],
)
def test_render_modes_read_from_source_are_those_of_the_class(env_id: str) -> None:
    spec = gymnasium.registry.get(env_id)
    if spec is None:
        pytest.skip("another version of Gymnasium")
    module, _, name = str(spec.entry_point).partition(":")
    metadata = getattr(importlib.import_module(module), name).metadata
    entry = load_catalogue().entries[f"openenv/{env_id}"]
    assert entry.render_modes == tuple(metadata["render_modes"])
    assert entry.render_fps == metadata["render_fps"]


def test_own_ids() -> None:
    entries = load_catalogue().entries
    assert entries["openenv/Echo-v0"] == CatalogueEntry(
        id="openenv/Echo-v0",
        package="echo_env",
        distribution="openenv-gym-echo",
        image="openenv-gym-echo",
        render_modes=("ansi",),
        render_fps=4,
    )
    atari = entries["openenv/Atari-v0"]
    assert (atari.package, atari.kwargs) == ("atari_env", {"game": "pong"})
    assert (atari.render_modes, atari.render_fps) == (("human", "rgb_array"), 30)
    assert entries["openenv/Gymnasium-v0"].package == "gymnasium"
    assert entries["openenv/Remote-v0"] == CatalogueEntry(id="openenv/Remote-v0")


@pytest.mark.parametrize(
    ("env_id", "package", "hosted"),
    [
        ("openenv/CartPole-v1", "gymnasium", "CartPole-v1"),
        ("openenv/phys2d-CartPole-v1", "gymnasium", "phys2d/CartPole-v1"),
        ("openenv/tabular-Blackjack-v0", "gymnasium", "tabular/Blackjack-v0"),
        ("openenv/Pong-v5", "atari_env", "ale_py:ALE/Pong-v5"),
        ("openenv/SpaceInvaders-v4", "atari_env", "ale_py:SpaceInvaders-v4"),
        ("openenv/PongNoFrameskip-v4", "atari_env", "ale_py:PongNoFrameskip-v4"),
        ("openenv/TicTacToe3D-v5", "atari_env", "ale_py:ALE/TicTacToe3D-v5"),
        ("openenv/Blackjack-v1", "gymnasium", "Blackjack-v1"),
        ("openenv/ALE-Blackjack-v5", "atari_env", "ale_py:ALE/Blackjack-v5"),
    ],
)
def test_hosted_ids(env_id: str, package: str, hosted: str) -> None:
    entry = load_catalogue().entries[env_id]
    assert (entry.package, entry.hosted) == (package, hosted)


def test_no_name_is_shared_by_two_packages() -> None:
    owners: dict[str, str | None] = {}
    for entry in load_catalogue().entries.values():
        # Gymnasium calls the lower version of a shared name out of date.
        assert owners.setdefault(base_name(entry.id), entry.package) == entry.package, entry.id


def test_entries_are_plain_data() -> None:
    for entry in load_catalogue().entries.values():
        assert json.loads(json.dumps(entry.kwargs)) == entry.kwargs
        assert entry.render_fps is None or math.isfinite(entry.render_fps)
        assert gymnasium.envs.registration.parse_env_id(entry.id)[0] == "openenv"
        assert entry.package is None or (entry.image and entry.distribution)


def test_mujoco_renders_in_one_thread() -> None:
    entries = load_catalogue().entries
    assert entries["openenv/Ant-v5"].thread_affinity
    assert not entries["openenv/CartPole-v1"].thread_affinity


def test_an_ale_id_of_a_new_form_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ale_py")
    spec = gymnasium.envs.registration.EnvSpec(
        "ALE/Pong-v6", "ale_py.env:AtariEnv", kwargs={"game": "pong"}
    )
    monkeypatch.setitem(gymnasium.registry, spec.id, spec)
    with pytest.raises(ValueError, match="Expected ALE/Pong-v6 to have one of the forms"):
        generate.build()
