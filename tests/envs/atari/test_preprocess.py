"""``preprocess=True`` equals Gymnasium's wrappers and ale-py's vector environment to the bit."""

from __future__ import annotations

import ale_py
import numpy as np
import pytest
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

from atari_env.server.atari_environment import AtariEnvironment
from atari_env.server.preprocessed import engine_seed
from openenv_gym.errors import InvalidActionError, ResetNeededError

from .play import STEPS, make, make_local, play, random_actions, same


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
    vector.action_space.seed(7)
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
