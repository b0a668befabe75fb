"""Games saved and brought back, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from atari_env.server.atari_environment import AtariEnvironment
from openenv_gym.errors import InvalidOptionError
from openenv_gym.server.adapter import TypedEnv

from .play import generator, make, play, random_actions, same


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
        assert same(generator(restored)[0], saved["np_random"])
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
    emulator = saved["emulator"]
    other = AtariEnvironment("breakout")
    other.reset(seed=0)
    for wrong in (
        None,
        {},
        {**saved, "more": 2},
        other.save_state(),
        {**other.save_state(), "options": saved["options"]},
        {**saved, "np_random": {"bit_generator": "Generator"}},
        {**saved, "emulator": b""},
        {**saved, "emulator": "text"},
        {**saved, "emulator": emulator[:100]},
        {**saved, "emulator": emulator[:-9]},
        {**saved, "emulator": emulator + b"1234"},
        {**saved, "emulator": emulator[:24] + b"\xff\xff\xff\xff" + emulator[28:]},
        {**saved, "screen": b""},
        {**saved, "screen": saved["screen"][:-9]},
        {**saved, "action": "up"},
        {**saved, "action": 18},
        {**saved, "strength": float("nan")},
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
        environment.restore_state({})
