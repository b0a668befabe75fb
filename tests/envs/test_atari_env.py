"""The Atari environment against ale-py's own, to the bit."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import ale_py
import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

import atari_env
from atari_env.models import action_model, observation_model
from atari_env.options import AtariOptions, PreprocessOptions
from atari_env.server.app import app
from atari_env.server.atari_environment import AtariEnvironment
from atari_env.server.games import available_games, find_game
from atari_env.server.preprocessed import engine_seed
from openenv_gym.errors import InvalidActionError, InvalidOptionError, ResetNeededError
from openenv_gym.models.manifest import load_manifest
from openenv_gym.server.adapter import TypedEnv


STEPS = 300
PACKAGE = Path(atari_env.__file__).parent


def make(**options) -> TypedEnv:
    return TypedEnv(AtariEnvironment(**options))


def make_local(game_id: str, **options) -> gymnasium.Env:
    return gymnasium.make(f"ALE/{game_id}-v5", **options).unwrapped


def same(a, b) -> bool:
    return data_equivalence(a, b, exact=True)


def generator(env: gymnasium.Env) -> tuple:
    # Read as the server reads it: nothing may be made by looking.
    state = None if env._np_random is None else env._np_random.bit_generator.state
    return state, env._np_random_seed


def random_actions(env: gymnasium.Env, count: int, seed: int = 0) -> list:
    env.action_space.seed(seed)
    return [env.action_space.sample() for _ in range(count)]


def play(env: gymnasium.Env, actions: list) -> list[tuple]:
    """Return what each step (and the reset after an end) gave."""
    results = []
    for action in actions:
        results.append(env.step(action))
        if results[-1][2] or results[-1][3]:
            results.append(env.reset())
    return results


# -- equal to ALE/<Game>-v5 ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("game", "options"),
    [
        ("Pong", {}),
        ("Breakout", {"obs_type": "grayscale", "frameskip": 1}),
        ("SpaceInvaders", {"obs_type": "ram", "mode": 3, "difficulty": 1}),
        ("Freeway", {"obs_type": "ram", "frameskip": (2, 5), "full_action_space": True}),
        ("Breakout", {"repeat_action_probability": 0.0, "max_num_frames_per_episode": 301}),
        ("Pong", {"continuous": True, "obs_type": "ram"}),
        (
            "Breakout",
            {
                "obs_type": "ram",
                "continuous": True,
                "continuous_action_threshold": 0.1,
                "max_num_frames_per_episode": None,
            },
        ),
        ("Carnival", {"sound_obs": True, "render_mode": "rgb_array"}),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else value,
)
def test_equals_ale(game, options):
    local = make_local(game, **options)
    env = make(game=game, **options)
    assert env.action_space == local.action_space
    assert env.observation_space == local.observation_space
    assert env.metadata == local.metadata
    assert env.render_mode == local.render_mode
    for seed in (None, 5):
        mine, theirs = env.reset(seed=seed), local.reset(seed=seed)
        if seed is None:  # from entropy, so only the form can be equal
            assert (mine[0] in env.observation_space, theirs[1]) == (True, mine[1])
    assert same(mine, theirs)
    assert {type(part) for part in mine[1]["seeds"]} == {np.uint32}
    assert same(generator(env), generator(local))
    for step, action in enumerate(random_actions(local, STEPS)):
        mine, theirs = env.step(action), local.step(action)
        assert same(mine, theirs), f"step {step}: {mine[1:]} != {theirs[1:]}"
        assert type(mine[1]) is type(theirs[1])
        assert same(generator(env), generator(local))
        if mine[2] or mine[3]:
            assert same(env.reset(), local.reset())
    if options.get("render_mode"):
        assert same(env.render(), local.render())
    assert env.environment.state.lives == local.ale.lives()


def test_the_end_and_the_cut_of_a_game_may_coincide():
    local = make_local("Breakout", obs_type="ram")
    local.reset(seed=1)
    while not (result := local.step(1))[2]:
        pass
    options = {"obs_type": "ram", "max_num_frames_per_episode": result[4]["episode_frame_number"]}
    env, local = make(game="breakout", **options), make_local("Breakout", **options)
    env.reset(seed=1), local.reset(seed=1)
    while not (result := local.step(1))[2]:
        assert same(env.step(1), result)
    assert result[2:4] == (True, True)
    assert same(env.step(1), result)


def test_a_pair_may_come_as_a_list():
    env = make(game="pong", frameskip=[2, 5])
    assert env.remote_target._frameskip == (2, 5)
    assert env.environment.state.frameskip == (2, 5)


def test_the_generator_is_ales():
    env, local = make(obs_type="ram"), make_local("Pong", obs_type="ram")
    assert env._np_random is env.remote_target._np_random is not None
    assert env._np_random_seed is None
    assert env.reset(seed=5) and local.reset(seed=5)
    assert env.np_random_seed == 5
    draws = [generator.integers(1000, size=20) for generator in (env.np_random, local.np_random)]
    assert same(*draws)
    env.np_random = np.random.default_rng(1)
    assert env.remote_target._np_random is env.np_random
    assert env.np_random_seed == -1


def test_attributes_are_resolved_on_ales_environment():
    environment = AtariEnvironment("breakout")
    environment.reset(seed=0)
    target = environment.remote_target
    assert isinstance(target, ale_py.AtariEnv)
    assert target.get_action_meanings() == ["NOOP", "FIRE", "RIGHT", "LEFT"]
    assert target.ale.lives() == 5
    assert target._frameskip == 4
    buffer = np.empty((210, 160), np.uint8)
    assert target.ale.getScreenGrayscale(buffer) is None
    assert same(buffer, target.ale.getScreenGrayscale())
    for path in environment.observables:
        value = target
        for name in path.split("."):
            value = getattr(value, name)
        assert isinstance(value(), (int, np.ndarray))


# ale-py's own environment has this one too.
@pytest.mark.filterwarnings("ignore:.*For Box action spaces:UserWarning")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"obs_type": "grayscale", "continuous": True},
        {"obs_type": "ram"},
        {"sound_obs": True},
        {"preprocess": True},
    ],
    ids=lambda options: ",".join(options) or "rgb",
)
def test_check_env(options):
    check_env(make(game="breakout", **options), skip_render_check=True)


# -- preprocess=True ----------------------------------------------------------------------------


@pytest.mark.parametrize(("game_id", "steps"), [("Pong", 500), ("Breakout", 250)])
def test_preprocess_equals_gymnasiums_pipeline(game_id, steps):
    theirs = make_local(game_id, frameskip=1, repeat_action_probability=0.0)
    theirs = AtariPreprocessing(theirs, noop_max=0)
    theirs = FrameStackObservation(theirs, 4, padding_type="zero")
    mine = make(
        game=game_id, preprocess=True, noop_max=0, use_fire_reset=False, reward_clipping=False
    )
    assert mine.observation_space == theirs.observation_space
    assert mine.action_space == theirs.action_space
    assert same(mine.reset(seed=3)[0], theirs.reset(seed=3)[0])
    ends = 0
    for step, action in enumerate(random_actions(theirs, steps)):
        a, b = mine.step(action), theirs.step(action)
        assert same(a, b), f"step {step}: {a[1:]} != {b[1:]}"
        if a[2] or a[3]:
            ends += 1
            # `seeds` is in no later reset, so that the infos are equal too.
            assert same(mine.reset(), theirs.reset())
    assert ends >= (game_id == "Breakout")


def test_preprocess_is_ales_vector_environment():
    vector = ale_py.AtariVectorEnv("breakout", num_envs=2)
    vector_observations, vector_infos = vector.reset(seed=7)
    envs = [make(game="breakout", preprocess=True) for _ in range(2)]
    for i, env in enumerate(envs):
        assert env.observation_space == vector.single_observation_space
        assert env.action_space == vector.single_action_space
        observation, info = env.reset(seed=7 + i)
        assert same(observation, vector_observations[i])
        assert info == {name: vector_infos[name][i] for name in info}
    running = {0, 1}
    for _ in range(STEPS):
        actions = vector.action_space.sample()
        observations, rewards, terminations, truncations, infos = vector.step(actions)
        for i in sorted(running):
            result = envs[i].step(actions[i])
            assert same(result[0], observations[i])
            assert result[1:4] == (rewards[i], terminations[i], truncations[i])
            assert [type(part) for part in result[1:4]] == [float, bool, bool]
            assert result[4] == {name: infos[name][i] for name in result[4]}
            assert {type(value) for value in result[4].values()} == {int}
            if result[2]:
                running.remove(i)
    vector.close()


def test_preprocess_repeats_itself_for_equal_seeds():
    def record(seed: int) -> list:
        env = make(game="breakout", preprocess=True, repeat_action_probability=0.25)
        first = env.reset(seed=seed)
        return [first, env.np_random.integers(1 << 30), *play(env, random_actions(env, 80))]

    assert same(record(3), record(3))
    assert not same(record(3), record(4))
    assert same(record(1 << 40), record(1 << 40))


def test_large_seeds_are_mapped_to_what_the_engine_takes():
    assert [engine_seed(seed) for seed in (0, 1, (1 << 31) - 1)] == [0, 1, (1 << 31) - 1]
    large = [engine_seed(seed) for seed in (1 << 31, (1 << 31) + 1, 1 << 100)]
    assert len(set(large)) == 3
    assert all(0 <= seed < 1 << 31 for seed in large)


@pytest.mark.parametrize("end", ["over", "cut", "life"])
def test_a_reset_after_the_end_swallows_no_step(end):
    options = {
        "over": {},
        "cut": {"max_num_frames_per_episode": 100},
        "life": {"episodic_life": True},
    }[end]
    env = make(game="breakout", preprocess=True, noop_max=0, **options)
    env.reset(seed=1)
    while not any((result := env.step(1))[2:4]):
        pass
    assert (result[2], result[3]) == (end != "cut", end == "cut")
    with pytest.raises(ResetNeededError):
        env.step(1)
    _, info = env.reset()
    assert info["episode_frame_number"] in (0, 1)  # 1 after the button
    _, _, terminated, truncated, after = env.step(1)
    assert after["episode_frame_number"] == info["episode_frame_number"] + 4
    assert (terminated, truncated) == (False, False)


def test_life_loss_info_lets_the_game_go_on():
    env = make(game="breakout", preprocess=True, life_loss_info=True)
    env.reset(seed=1)
    lives = []
    while not lives or lives[-1] > 0:
        _, _, terminated, _, info = env.step(1)
        if terminated:
            lives.append(info["lives"])
    assert lives == [4, 3, 2, 1, 0]
    with pytest.raises(ResetNeededError):
        env.step(1)


def test_preprocess_returns_arrays_of_its_own():
    env = make(preprocess=True, render_mode="rgb_array")
    arrays = [env.reset(seed=0)[0], env.step(0)[0], env.step(0)[0], env.render(), env.reset()[0]]
    copies = [array.copy() for array in arrays]
    env.step(2)
    assert same(arrays, copies)
    for i, array in enumerate(arrays):
        assert not any(np.shares_memory(array, other) for other in arrays[:i])


def test_preprocess_renders_the_newest_frame():
    gray = make(preprocess=True, render_mode="rgb_array")
    observation, _ = gray.reset(seed=0)
    assert same(gray.render(), np.stack([observation[-1]] * 3, axis=-1))
    colour = make(preprocess=True, render_mode="rgb_array", grayscale=False, img_height=100)
    observation, _ = colour.reset(seed=0)
    assert observation.shape == (4, 100, 84, 3)
    assert same(colour.render(), observation[-1])


def test_preprocess_leaves_gymnasiums_metadata_alone():
    before = dict(VectorEnv.metadata)
    env = make(preprocess=True)
    assert VectorEnv.metadata == before
    assert env.metadata == {"render_modes": ["rgb_array"], "render_fps": 30}
    assert AtariEnvironment.metadata["render_modes"] == ["human", "rgb_array"]


def test_preprocess_refuses_what_the_engine_would_hang_on():
    env = make(preprocess=True)
    with pytest.raises(ResetNeededError):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(InvalidActionError):
        env.step(6)
    for action_id in (6, -1):  # past the model, too
        wrong = env.environment.action_model.model_construct(action_id=action_id)
        with pytest.raises(InvalidActionError):
            env.environment.step(wrong)
    env.step(5)


def test_preprocess_tells_its_state():
    env = make(game="breakout", preprocess=True, frameskip=2)
    env.reset(seed=0)
    state = env.environment.state
    assert (state.game_name, state.obs_type, state.frameskip) == ("breakout", "grayscale", 2)
    assert (state.lives, state.preprocess, state.repeat_action_probability) == (5, True, 0.0)
    assert env.remote_target.lives == 5
    assert env.remote_target.get_action_meanings() == ["NOOP", "FIRE", "RIGHT", "LEFT"]


# -- saving -------------------------------------------------------------------------------------


def is_plain(value) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(item) for key, item in value.items())
    return value is None or type(value) in (bool, int, float, str, bytes)


def screens(env: TypedEnv) -> list:
    ale = env.remote_target.ale
    buffer = np.empty(ale.getScreenDims(), np.uint8)
    ale.getScreenGrayscale(buffer)
    views = (ale.getScreen, ale.getScreenRGB, ale.getScreenGrayscale, ale.getRAM, ale.lives)
    return [buffer, env.render(), *(view() for view in views)]


@pytest.mark.parametrize(
    ("game", "steps", "options"),
    [
        ("amidar", 0, {"frameskip": 1}),  # its first frame does not fill the screen
        ("amidar", 1, {"frameskip": 1}),
        ("pong", 60, {"repeat_action_probability": 0.9, "frameskip": (1, 3)}),
        ("breakout", 60, {"continuous": True}),
        ("breakout", 30, {"repeat_action_probability": 1.0}),
        ("montezuma_revenge", 60, {"repeat_action_probability": 0.0, "obs_type": "ram"}),
    ],
)
def test_a_saved_state_brings_back_everything(game, steps, options):
    options = {"game": game, "render_mode": "rgb_array", **options}
    env = make(**options)
    env.reset(seed=5)
    play(env, random_actions(env, steps))
    saved, seen, state = env.environment.save_state(), screens(env), env.environment.state
    assert is_plain(saved)
    actions = random_actions(env, 60, seed=1)
    expected = play(env, actions)
    other = make(**options)
    other.reset(seed=6)
    play(other, random_actions(other, 9))
    for restored in (env, other):
        restored.environment.restore_state(saved)
        assert same(screens(restored), seen)
        assert same(restored.environment.save_state(), saved)
        assert restored.environment.state == state
        assert same(generator(restored)[0], saved["game"]["np_random"])
        assert same(play(restored, actions), expected)


def test_a_long_game_can_be_saved(monkeypatch):
    monkeypatch.setattr("atari_env.server.emulator._LONGEST_RECORD", 50)
    env = make(obs_type="ram", repeat_action_probability=0.9)
    env.reset(seed=0)
    play(env, random_actions(env, 100))
    saved, actions = env.environment.save_state(), random_actions(env, 50, seed=1)
    expected = play(env, actions)
    env.environment.restore_state(saved)
    assert same(play(env, actions), expected)


def test_a_finished_game_can_be_saved():
    env = make(game="breakout", obs_type="ram")
    env.reset(seed=1)
    while not env.step(1)[2]:
        pass
    saved = env.environment.save_state()
    expected = env.step(0), env.reset(), env.step(1)
    env.environment.restore_state(saved)
    assert same((env.step(0), env.reset(), env.step(1)), expected)


def test_what_is_no_saved_state_is_refused():
    environment = AtariEnvironment("pong")
    environment.reset(seed=0)
    saved = environment.save_state()
    game = saved["game"]
    for wrong in (
        None,
        {},
        {**saved, "version": 2},
        {**saved, "game_name": "breakout"},
        {**saved, "game": None},
        *(
            {**saved, "game": {**game, **damage}}
            for damage in (
                {"np_random": {"bit_generator": "Generator"}},
                {"emulator": game["emulator"][:100]},
                {"screen": b""},
                {"screen": game["screen"][:-9]},
                {"action": "up"},
            )
        ),
    ):
        with pytest.raises(InvalidOptionError) as caught:
            environment.restore_state(wrong)
        assert caught.value.field == "saved"
    assert same(environment.save_state(), saved)


@pytest.mark.parametrize(
    "options", [{"game": "qbert"}, {"sound_obs": True}, {"preprocess": True}], ids=",".join
)
def test_what_cannot_be_saved_says_so(options):
    environment = AtariEnvironment(**options)
    environment.reset(seed=0)
    with pytest.raises(NotImplementedError, match="ale-py"):
        environment.save_state()
    with pytest.raises(NotImplementedError, match="ale-py"):
        environment.restore_state(
            {
                "version": 1,
                "game_name": options.get("game", "pong"),
                "episode_id": None,
                "step_count": 0,
                "game": {},
            }
        )


# -- options ------------------------------------------------------------------------------------


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
    documented = {name: default for name, default in rows if name not in ("game", "render_mode")}
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


# -- the package --------------------------------------------------------------------------------


def test_models_are_made_once():
    assert action_model(6) is action_model(6)
    first, second = AtariEnvironment("pong"), AtariEnvironment("pong")
    assert first.observation_model is second.observation_model
    schema = observation_model((210, 160, 3)).model_json_schema()
    assert schema["title"] == "AtariObservation"
    assert schema["properties"]["screen"]["shape"] == [210, 160, 3]
    assert action_model(6).model_json_schema()["properties"]["action_id"]["exclusiveMaximum"] == 6


def test_importing_the_package_does_not_load_the_emulator():
    check = "import sys, atari_env; sys.exit('ale_py' in sys.modules)"
    subprocess.run(
        [sys.executable, "-c", check], check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )


def test_manifest_agrees_with_the_code():
    manifest = load_manifest(PACKAGE / "openenv.yaml")
    assert (manifest.name, manifest.license) == ("atari_env", "GPL-2.0-only")
    assert (manifest.distribution, manifest.image) == ("openenv-gym-atari", "openenv-gym-atari")
    (entry,) = manifest.ids
    assert (entry.id, entry.kwargs) == ("Atari-v0", {"game": "pong"})
    assert list(entry.render_modes) == AtariEnvironment.metadata["render_modes"]
    assert entry.render_fps == AtariEnvironment.metadata["render_fps"]


def test_app_makes_environments():
    host = app.open({"game": "breakout", "obs_type": "ram"})
    local = make_local("Breakout", obs_type="ram")
    value, _ = host.execute("reset", [5])
    assert same(value, list(local.reset(seed=5)))
    value, _ = host.execute("step", [np.int64(1)])
    assert same(value, list(local.step(1)))
    assert host.execute("get", ["ale.lives"])[0][0] == 1  # a method
    assert host.execute("call", ["ale.lives", [], {}])[0] == 5
    assert host.execute("state", [])[0]["lives"] == 5
    host.close()
