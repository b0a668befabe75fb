from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec, registry

import openenv_gym
from openenv_gym import registration
from openenv_gym.errors import UnknownEnvironmentError
from openenv_gym.registration import known_environments, lookup, register_all


if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(openenv_gym.__file__).parents[1]

HEAVY = [
    "aiohttp",
    "ale_py",
    "cv2",
    "docker",
    "fastapi",
    "gradio",
    "msgpack",
    "pydantic",
    "pygame",
    "starlette",
    "uvicorn",
    "websockets",
    "yaml",
]
"""What `import openenv_gym` leaves to those who use it."""


def run(code: str, *path: Path, flags: tuple[str, ...] = ("-W", "error")) -> str:
    """Run code in a fresh interpreter, where warnings are errors; return what it prints."""
    places = os.pathsep.join(map(str, (*path, ROOT)))
    done = subprocess.run(
        [sys.executable, *flags, "-c", code],
        env={**os.environ, "PYTHONPATH": places},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_importing_is_silent_and_light() -> None:
    code = f"""
import sys, gymnasium
before = set(sys.modules)
import openenv_gym
print(sorted({{name.partition(".")[0] for name in set(sys.modules) - before}} & set({HEAVY!r})))
print(sorted(name for name in set(sys.modules) - before if name.startswith("openenv_gym")))
"""
    heavy, ours = run(code).splitlines()
    assert heavy == "[]"
    assert json.loads(ours.replace("'", '"')) == [
        "openenv_gym",
        "openenv_gym._version",
        "openenv_gym.errors",
        "openenv_gym.registration",
        "openenv_gym.registration.catalogue",
        "openenv_gym.registration.discovery",
    ]


def test_a_spec_works_in_a_process_that_imported_nothing_of_ours() -> None:
    # What a spawned worker of AsyncVectorEnv or Ray does.
    pickled = pickle.dumps(gymnasium.spec("openenv/Pong-v4"))
    code = f"""
import pickle, gymnasium
from gymnasium.envs.registration import load_env_creator
spec = pickle.loads({pickled!r})
print(load_env_creator(spec.entry_point))
assert spec == gymnasium.spec("openenv/Pong-v4")
"""
    assert run(code) == "EnvCreator('openenv/Pong-v4')\n"


def test_the_module_prefix_registers() -> None:
    code = """
import sys, gymnasium
assert "openenv/CartPole-v1" not in gymnasium.registry
try:
    gymnasium.make("openenv_gym:openenv/CartPole-v1", provider="no such provider")
except Exception:
    pass
print("openenv/CartPole-v1" in gymnasium.registry)
"""
    assert run(code) == "True\n"


def test_installed_packages_extend_the_catalogue(site: Path, install: Callable[..., Path]) -> None:
    install("broken_env", "name: [")
    install("ludo_env")
    code = """
import sys, gymnasium, openenv_gym
from gymnasium.envs.registration import load_env_creator
spec = gymnasium.spec("openenv/Ludo-v0")
print(spec.max_episode_steps, spec.kwargs, load_env_creator(spec.entry_point).metadata)
assert not {"ludo_env", "broken_env"} & set(sys.modules)
"""
    output = run(code, site)
    assert "200 {'opponent': 'random', 'skill': 3} {'render_modes': ['human', 'ansi'" in output
    assert "Environment package 'broken_env' is left out" in output


def test_registering_again_changes_nothing() -> None:
    before = dict(registry)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        register_all()
        entry_point = importlib.metadata.EntryPoint(
            "openenv", "openenv_gym.registration:register_all", "gymnasium.envs"
        )
        entry_point.load()()
    assert list(registry) == list(before)
    assert all(registry[env_id] is spec for env_id, spec in before.items())


def test_reloading_is_silent() -> None:
    code = """
import importlib, gymnasium, openenv_gym, openenv_gym.registration
spec = gymnasium.spec("openenv/CartPole-v1")
importlib.reload(openenv_gym)
importlib.reload(openenv_gym.registration)
importlib.reload(openenv_gym)
assert gymnasium.spec("openenv/CartPole-v1") is spec
"""
    assert run(code) == ""


def test_the_users_own_spec_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = EnvSpec("openenv/CartPole-v1", "mine:Mine")
    monkeypatch.setitem(registry, mine.id, mine)
    register_all()
    assert registry[mine.id] is mine


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pong-v0", "Echo-v0", "Remote-v0", "Ant-v5"])
def test_specs_survive_json_and_pickle(env_id: str) -> None:
    spec = gymnasium.spec(f"openenv/{env_id}")
    assert EnvSpec.from_json(spec.to_json()) == spec
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_specs_do_not_share_kwargs_with_the_catalogue() -> None:
    registered = [e for e in known_environments().values() if e.id in registry]
    assert len(registered) > 100
    for entry in registered:
        assert gymnasium.spec(entry.id).kwargs is not entry.kwargs


def test_pprint_registry_lists_our_namespace() -> None:
    text = gymnasium.pprint_registry(disable_print=True)
    assert text is not None
    ours = text.partition("===== openenv =====")[2]
    assert "openenv/CartPole-v1" in ours
    assert "openenv/phys2d-CartPole-v1" in ours


def test_gymnasium_suggests_ours_for_a_misspelling() -> None:
    with pytest.raises(gymnasium.error.NameNotFound, match=r"Did you mean: `CartPole`\?"):
        gymnasium.spec("openenv/CartPol-v1")
    with pytest.raises(gymnasium.error.NamespaceNotFound, match=r"Did you mean: `openenv`\?"):
        gymnasium.spec("openevn/CartPole-v1")


def test_a_newer_catalogue_than_the_installed_gymnasium(monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("CartPole-v0", "CartPole-v1"):
        monkeypatch.delitem(registry, version)
        monkeypatch.delitem(registry, f"openenv/{version}")
    register_all()
    assert gymnasium.spec("openenv/CartPole-v1").max_episode_steps == 500


def test_a_newer_version_than_the_installed_gymnasium_has_is_no_reason_for_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(registry, "CartPole-v1")
    monkeypatch.delitem(registry, "openenv/CartPole-v1")
    register_all()
    gymnasium.make("openenv/CartPole-v0", provider="thread").close()
    assert "openenv/CartPole-v1" not in registry
    assert lookup("CartPole-v1").hosted == "CartPole-v1"


def test_lookup() -> None:
    assert lookup("Pong-v5") is lookup("openenv/Pong-v5")
    with pytest.raises(UnknownEnvironmentError, match=r"Did you mean 'openenv/Pong-v5'\?"):
        lookup("Pogn-v5")
    with pytest.raises(UnknownEnvironmentError, match="Is the package that brings it installed"):
        lookup("Zzzzzzzzzzz-v123")
    with pytest.raises(UnknownEnvironmentError, match="Is the package that brings it installed"):
        lookup("openenv/Whist-v0")  # the namespace is no likeness


def test_public_names() -> None:
    assert registration.__all__ == [
        "CatalogueEntry",
        "find_manifest",
        "forget_environments",
        "known_environments",
        "lookup",
        "register_all",
    ]
