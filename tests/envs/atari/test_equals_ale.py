"""Without options of ours, the environment equals ``ALE/<Game>-v5`` to the bit."""

from __future__ import annotations

import ale_py
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from atari_env.server.atari_environment import AtariEnvironment

from .play import STEPS, generator, make, make_local, random_actions, same


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
