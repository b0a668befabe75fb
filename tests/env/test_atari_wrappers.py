"""Wrappers that reach below the environment work unmodified, pixel for pixel."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

import openenv_gym  # noqa: F401  # registers the ids


ale_py = pytest.importorskip("ale_py")
gymnasium.register_envs(ale_py)


def wrapped(env: Any, **kwargs: Any) -> Any:
    return FrameStackObservation(AtariPreprocessing(env, noop_max=30, **kwargs), 4)


@pytest.mark.parametrize(
    "kwargs", [{}, {"grayscale_obs": False}, {"terminal_on_life_loss": True}, {"frame_skip": 2}]
)
@pytest.mark.parametrize("name", ["Atari-v0", "Breakout-v5"])
def test_atari_preprocessing_equals_the_local_one(name: str, kwargs: dict[str, Any]) -> None:
    game = {"game": "breakout"} if name == "Atari-v0" else {}
    local = wrapped(gymnasium.make("ALE/Breakout-v5", frameskip=1), **kwargs)
    remote = wrapped(
        gymnasium.make(f"openenv/{name}", frameskip=1, provider="thread", **game), **kwargs
    )
    remote.action_space.seed(0)
    for seed in (3, 4):
        here, there = local.reset(seed=seed), remote.reset(seed=seed)
        assert (here[0] == there[0]).all() and here[1].keys() == there[1].keys()
        for _ in range(150):
            action = remote.action_space.sample()
            here, there = local.step(action), remote.step(action)
            assert (here[0] == there[0]).all()
            assert here[1:4] == there[1:4] and here[4] == there[4]
            if here[2] or here[3]:
                assert (local.reset()[0] == remote.reset()[0]).all()
    local.close()
    remote.close()


def test_lives_and_screens_ride_along_with_the_steps() -> None:
    env = AtariPreprocessing(
        gymnasium.make("openenv/Atari-v0", game="breakout", frameskip=1, provider="thread"),
        noop_max=30,
    )
    env.reset(seed=1)
    for _ in range(5):
        env.step(1)
    connection = env.unwrapped.openenv.connection
    before = connection.frames_sent
    for _ in range(50):
        env.step(1)
    frames = (connection.frames_sent - before) / 50
    print(f"frames on the wire per agent step: {frames}")
    assert frames == 4  # one for each of the four emulated frames, none for lives and screens
    env.close()


def test_what_nobody_reads_any_more_stops_riding_along() -> None:
    env = gymnasium.make("openenv/Atari-v0", game="pong", provider="thread")
    env.reset(seed=1)
    ale = env.unwrapped.ale
    assert ale.getRAM().shape == (128,)
    assert ale.getRAM().dtype == np.uint8
    for _ in range(100):
        env.step(0)
    assert ale.lives() == 0  # a new reading drops the old one, which 100 steps did not use
    assert list(env.unwrapped.openenv.observed._unread) == ["ale.lives"]
    assert ale.getRAM().tolist() == ale.getRAM().tolist()
    env.close()


def test_methods_and_constants_of_the_environment() -> None:
    env = gymnasium.make("openenv/Atari-v0", game="pong", provider="thread")
    local = gymnasium.make("ALE/Pong-v5")
    assert env.unwrapped.get_action_meanings() == local.unwrapped.get_action_meanings()
    assert env.get_wrapper_attr("_frameskip") == 4
    assert env.unwrapped.ale.getInt("frame_skip") == local.unwrapped.ale.getInt("frame_skip")
    env.close()
    local.close()
