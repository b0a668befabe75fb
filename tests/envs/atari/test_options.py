"""Games and options: which there are, and what is said about those there are not."""

from __future__ import annotations

import re
from pathlib import Path

import ale_py
import gymnasium
import pytest

import atari_env
from atari_env.options import AtariOptions, PreprocessOptions
from atari_env.server.atari_environment import AtariEnvironment
from atari_env.server.games import available_games, find_game
from openenv_gym.errors import InvalidOptionError


PACKAGE = Path(atari_env.__file__).parent


def test_games_by_any_spelling():
    games = available_games()
    assert len(games) == 104
    for game in games:
        in_id = game.title().replace("_", "")
        assert f"ALE/{in_id}-v5" in gymnasium.registry
        assert find_game(game) == find_game(in_id) == find_game(game.upper()) == game
    assert find_game("space invaders") == find_game("Space-Invaders") == "space_invaders"


@pytest.mark.parametrize(
    ("name", "hint"),
    [("pnog", "'pong'"), ("spaceinvader", "'space_invaders'"), ("zzz", "README"), (3, "README")],
)
def test_an_unknown_game(name, hint):
    with pytest.raises(InvalidOptionError, match=re.escape(repr(name))) as caught:
        AtariEnvironment(name)
    assert caught.value.field == "game"
    assert hint in str(caught.value)
    assert caught.value.data["games"] == list(available_games())


def test_a_game_for_two_is_refused():
    # ale-py ends the process on these.
    with pytest.raises(InvalidOptionError, match="two players"):
        AtariEnvironment("combat")


@pytest.mark.parametrize(
    ("options", "field", "said"),
    [
        ({"repeat_probability": 0.1}, "repeat_probability", "'repeat_action_probability'"),
        ({"colour": True}, "colour", "sound_obs"),
        ({"noop_max": 3}, "noop_max", "preprocess=True"),
        ({"num_threads": 3}, "num_threads", "vector"),
        ({"preprocess": True, "sound_obs": True}, "sound_obs", "preprocess=True"),
        ({"preprocess": True, "noop": 1}, "noop", "'noop_max'"),
        ({"preprocess": True, "batch_size": 1}, "batch_size", "vector"),
        ({"preprocess": 1}, "preprocess", "True or False"),
        ({"preprocess": True, "frameskip": (2, 5)}, "frameskip", "integer"),
        ({"preprocess": True, "stack_num": 0}, "stack_num", "greater than or equal to 1"),
        ({"preprocess": True, "render_mode": "human"}, "render_mode", "'rgb_array'"),
        ({"render_mode": "ansi"}, "render_mode", "'human' or 'rgb_array'"),
        ({"obs_type": "rbg"}, "obs_type", "'rgb', 'grayscale' or 'ram'"),
        ({"frameskip": 0}, "frameskip", "positive"),
        ({"frameskip": 2.0}, "frameskip", "positive"),
        ({"frameskip": [5, 2]}, "frameskip", "positive"),
        ({"frameskip": (1, 2, 3)}, "frameskip", "positive"),
        ({"repeat_action_probability": 1.5}, "repeat_action_probability", "less than or equal"),
        ({"mode": 7}, "mode", "There are 0, 1."),
        ({"difficulty": 7}, "difficulty", "There are 0, 1, 2, 3."),
        ({"continuous": "yes"}, "continuous", "boolean"),
        ({"mode": 10**30}, "mode", "less than or equal"),
        ({"difficulty": 2**31}, "difficulty", "less than or equal"),
        ({"max_num_frames_per_episode": -(10**18)}, "max_num_frames_per_episode", "greater than"),
        ({"frameskip": 10**9}, "frameskip", "up to 10000"),
        ({"frameskip": (1, 10**9)}, "frameskip", "up to 10000"),
        ({"preprocess": True, "frameskip": 10**9}, "frameskip", "less than or equal"),
        ({"preprocess": True, "img_height": 10**9}, "img_height", "less than or equal"),
        ({"preprocess": True, "img_width": 1025}, "img_width", "less than or equal"),
        ({"preprocess": True, "stack_num": 10**9}, "stack_num", "less than or equal"),
        ({"preprocess": True, "noop_max": 10**20}, "noop_max", "less than or equal"),
        ({"rubric": "math:pi"}, "rubric", "math:pi"),
        ({"rubric": 3, "preprocess": True}, "rubric", "module:attribute"),
    ],
    ids=str,
)
def test_wrong_options(options, field, said):
    with pytest.raises(InvalidOptionError) as caught:
        AtariEnvironment(**options)
    assert caught.value.field == field
    assert field in caught.value.message
    assert said in str(caught.value)


@pytest.mark.parametrize("options", [AtariOptions, PreprocessOptions])
def test_the_readme_lists_all_options_with_their_defaults(options):
    text = (PACKAGE / "README.md").read_text()
    raw, _, preprocessed = text.partition("## With `preprocess=True`")
    rows = re.findall(
        r"^\| `(\w+)` \| `(.*?)` \|", preprocessed if options is PreprocessOptions else raw, re.M
    )
    own = ("game", "render_mode", "rubric")
    documented = {name: default for name, default in rows if name not in own}
    assert documented == {name: repr(field.default) for name, field in options.model_fields.items()}
    assert all(f"`{game}`" in text for game in available_games())


def test_defaults_are_ale_pys():
    registered = gymnasium.spec("ALE/Pong-v5").kwargs
    assert {name: getattr(AtariOptions(), name) for name in registered if name != "game"} == {
        name: value for name, value in registered.items() if name != "game"
    }
    defaults = ale_py.AtariVectorEnv.__init__.__kwdefaults__
    assert PreprocessOptions().model_dump() == {
        name: defaults[name] for name in PreprocessOptions.model_fields
    }
