"""Remote equals local, to the bit, as Gymnasium's own checkers see it."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.utils.env_match import check_environments_match

import openenv_gym  # noqa: F401  # registers the ids


ale_py = pytest.importorskip("ale_py")
gymnasium.register_envs(ale_py)

Make = Callable[..., gymnasium.Env[Any, Any]]

TAXI = "Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"
PAIRS: dict[str, tuple[str, dict[str, Any], str, dict[str, Any]]] = {
    "atari-rgb": ("Atari-v0", {"game": "pong"}, "ALE/Pong-v5", {}),
    "atari-gray": (
        "Atari-v0",
        {"game": "breakout", "obs_type": "grayscale"},
        "ALE/Breakout-v5",
        {"obs_type": "grayscale"},
    ),
    "atari-ram": (
        "Atari-v0",
        {"game": "seaquest", "obs_type": "ram", "frameskip": 1},
        "ALE/Seaquest-v5",
        {"obs_type": "ram", "frameskip": 1},
    ),
    "pong": ("Pong-v5", {}, "ALE/Pong-v5", {}),
    "legacy": ("PongNoFrameskip-v4", {}, "PongNoFrameskip-v4", {}),
    **{
        name: (name, {}, name, {})
        for name in (
            "CartPole-v1",
            "Pendulum-v1",
            TAXI,
            "FrozenLake-v1",
            "Blackjack-v1",
            "MountainCar-v0",
            "Acrobot-v1",
        )
    },
}


def remote(name: str, provider: str, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    return gymnasium.make(f"openenv_gym:openenv/{name}", provider=provider, **kwargs)


def warned(make: Make) -> set[str]:
    """Run Gymnasium's checker and return the warnings it gives."""
    gc.collect()  # what an earlier test has left is not to be warned of in the middle of this one
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env = make()
        check_env(env.unwrapped)
        env.close()
    return {str(warning.message) for warning in caught}


@pytest.fixture(autouse=True)
def _no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("SDL_AUDIODRIVER", "dummy")


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_the_checker_finds_nothing_that_it_does_not_find_locally(pair: Any) -> None:
    name, kwargs, local_id, local_kwargs = pair
    here = warned(lambda: gymnasium.make(local_id, **local_kwargs))
    assert warned(lambda: remote(name, "thread", **kwargs)) <= here


@pytest.mark.parametrize(
    ("name", "kwargs"), [("Echo-v0", {}), ("Atari-v0", {"game": "pong", "preprocess": True})]
)
def test_the_checker_finds_nothing_in_our_own(name: str, kwargs: dict[str, Any]) -> None:
    assert warned(lambda: remote(name, "process", **kwargs)) == set()


@pytest.mark.parametrize("seed", [0, 7, 123])
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_a_thousand_steps_match(pair: Any, seed: int) -> None:
    name, kwargs, local_id, local_kwargs = pair
    there = remote(name, "process" if seed == 7 else "thread", **kwargs)
    here = gymnasium.make(local_id, **local_kwargs)
    # Both draw their actions from spaces that the checker seeds.
    check_environments_match(there, here, num_steps=1000, seed=seed)
    assert_same_generator(there, here)
    there.close()
    here.close()


def assert_same_generator(there: Any, here: Any) -> None:
    one, other = there.unwrapped._np_random, here.unwrapped._np_random
    assert (one is None) == (other is None)
    if one is not None:
        assert one.bit_generator.state == other.bit_generator.state
        assert there.unwrapped.np_random_seed == here.unwrapped.np_random_seed


def test_what_comes_back_has_the_local_types() -> None:
    here = gymnasium.make("ALE/Pong-v5")
    there = remote("Atari-v0", "process", game="pong")
    for local, far in (
        (here.reset(seed=1), there.reset(seed=1)),
        (here.step(np.int64(2)), there.step(np.int64(2))),
    ):
        for a, b in zip(local, far, strict=True):
            assert type(a) is type(b)
        assert local[0].dtype == far[0].dtype and far[0].flags.writeable
        for key, value in local[-1].items():
            assert type(far[-1][key]) is type(value), key
    assert there.action_space == here.action_space
    assert there.observation_space == here.observation_space
    assert there.metadata == here.metadata
    assert there.spec.reward_threshold == here.spec.reward_threshold
    here.close()
    there.close()


def test_every_id_that_runs_here_runs_there() -> None:
    """The drop-in: put ``openenv/`` in front of an id."""
    names = ["CartPole-v0", "MountainCarContinuous-v0", "CliffWalking-v1", "FrozenLake8x8-v1"]
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # CartPole-v0 is out of date, here and there
            here, there = gymnasium.make(name), remote(name, "thread")
        check_environments_match(there, here, num_steps=50, seed=1)
        assert there.spec.max_episode_steps == here.spec.max_episode_steps
        here.close()
        there.close()
