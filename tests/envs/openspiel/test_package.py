"""The package: its manifest, its ids, its server application."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import openenv_gym  # noqa: F401  # registers the ids
import openspiel_env
from openenv_gym.errors import InvalidOptionError
from openenv_gym.models.manifest import load_manifest
from openenv_gym.registration.catalogue import load_catalogue
from openspiel_env.models import action_model, observation_model
from openspiel_env.server.app import app
from openspiel_env.server.blackjack import TextBlackjackEnvironment
from openspiel_env.server.openspiel_environment import OpenSpielEnvironment

from .play import make, make_blackjack, play, same
from .test_games import playable


PACKAGE = Path(openspiel_env.__file__).parent


def test_models_are_made_once():
    assert action_model(9) is action_model(9)
    first, second = OpenSpielEnvironment("tic_tac_toe"), OpenSpielEnvironment("tic_tac_toe")
    assert first.observation_model is second.observation_model is observation_model(27, 9, 2)
    schema = first.observation_model.model_json_schema(mode="serialization")
    assert schema["title"] == "OpenSpielObservation"
    assert schema["properties"]["info_state"]["shape"] == [27]
    assert schema["properties"]["legal_actions"]["type"] == "array"


def test_importing_the_package_does_not_load_the_games():
    check = "import sys, openspiel_env; sys.exit('pyspiel' in sys.modules)"
    subprocess.run(
        [sys.executable, "-c", check], check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )


def test_manifest_agrees_with_the_code_and_the_catalogue():
    manifest = load_manifest(PACKAGE / "openenv.yaml")
    assert (manifest.name, manifest.license) == ("openspiel_env", "MIT AND Apache-2.0")
    assert manifest.distribution == manifest.image == "openenv-gym-openspiel"
    assert [entry.id for entry in manifest.ids] == ["OpenSpiel-v0", "TextBlackjack-v0"]
    for entry, kind in zip(
        manifest.ids, (OpenSpielEnvironment, TextBlackjackEnvironment), strict=True
    ):
        assert list(entry.render_modes) == kind.metadata["render_modes"]
        assert entry.render_fps == kind.metadata["render_fps"]
        known = load_catalogue().entries[f"openenv/{entry.id}"]
        assert (known.package, known.image) == ("openspiel_env", manifest.image)
        assert (known.kwargs, known.render_modes) == (entry.kwargs, entry.render_modes)


def test_the_readme_lists_the_games():
    text = (PACKAGE / "README.md").read_text(encoding="utf-8")
    listed = text.partition("## Games")[2].partition("\n\n`coin_game`")[0]
    names = re.findall(r"`(\w+)`", listed)
    assert f"{len(names)} games" in text
    if importlib.metadata.version("open_spiel").startswith("1."):  # which has fewer
        assert set(playable()) < set(names)
    else:
        assert playable() == names


def test_app_makes_both_environments():
    host = app.open({"game": "tic_tac_toe", "opponent": "first"})
    value, _ = host.execute("reset", [5])
    assert value[1]["action_mask"].tolist() == [1] * 9
    value, _ = host.execute("step", [np.int64(4)])
    assert value[0]["opponent_last_action"] == 0
    assert host.execute("state", [])[0]["game_name"] == "tic_tac_toe"
    host.close()
    host = app.open({"rules": "openspiel"})
    value, _ = host.execute("reset", [5])
    assert value[0].startswith("You are playing blackjack")
    host.close()


@pytest.mark.parametrize(
    ("options", "field"),
    [({"gaem": "catch"}, "gaem"), ({"rules": "gymnasium", "game": "catch"}, "game")],
)
def test_unknown_options_are_named(options, field):
    with pytest.raises(InvalidOptionError) as caught:
        app.open(options)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("env_id", "options", "local"),
    [
        ("openenv/OpenSpiel-v0", {}, make()),
        ("openenv/OpenSpiel-v0", {"game": "kuhn_poker"}, make("kuhn_poker")),
        ("openenv/OpenSpiel-v0", {"game": "2048", "observation": "text"}, make("2048", observation="text")),
        ("openenv/TextBlackjack-v0", {}, make_blackjack()),
        ("openenv/TextBlackjack-v0", {"rules": "openspiel"}, make_blackjack("openspiel")),
    ],
)  # fmt: skip
def test_ids_are_the_environments_to_the_bit(env_id, options, local):
    env = gymnasium.make(env_id, provider="thread", **options)
    assert env.observation_space == local.observation_space
    assert env.action_space == local.action_space
    assert same(play(env, 40), play(local, 40))
    env.close()


def test_check_env_through_a_server():
    env = gymnasium.make("openenv/OpenSpiel-v0", game="tic_tac_toe", provider="thread")
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


@pytest.mark.parametrize(
    ("env_id", "options"),
    [("OpenSpiel-v0", {"game": "tic_tac_toe"}), ("TextBlackjack-v0", {})],
)
def test_vectors(env_id, options):
    envs = gymnasium.make_vec(
        f"openenv/{env_id}", num_envs=3, num_servers=1, provider="thread", **options
    )
    observations, _ = envs.reset(seed=4)
    locals_ = [app.open({**load_catalogue().entries[f"openenv/{env_id}"].kwargs, **options})]
    first = locals_[0].execute("reset", [4])[0][0]
    if isinstance(observations, dict):
        assert observations["info_state"].shape == (3, 27)
        assert same({name: value[0] for name, value in observations.items()}, first)
        actions = np.array([4, 4, 4])
    else:
        assert observations[0] == first
        actions = ("hit", "stand", "hit")
    assert envs.step(actions)[1].shape == (3,)
    envs.close()
    locals_[0].close()


def test_an_attribute_of_the_game_may_be_read_and_saved_states_travel():
    env = gymnasium.make("openenv/OpenSpiel-v0", game="tic_tac_toe", provider="thread")
    env.reset(seed=0)
    saved = env.unwrapped.save_state()
    expected = env.step(4)
    env.unwrapped.restore_state(saved)
    assert same(env.step(4), expected)
    env.close()
