"""The package that hosts PettingZoo's environments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pettingzoo_env
from openenv_gym import errors
from openenv_gym.models.manifest import load_manifest
from openenv_gym.pettingzoo import aec_env, parallel_env, start_server, vector_env
from openenv_gym.registration.shared import SharedServer
from pettingzoo_env import CLASSICS
from pettingzoo_env.server.app import app
from tests.support.zoo import warned, zoo


# Of no-limit hold'em's space, here as locally.
pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered")

PACKAGE = Path(pettingzoo_env.__file__).parent


def test_manifest_agrees_with_the_code() -> None:
    manifest = load_manifest(PACKAGE / "openenv.yaml")
    assert (manifest.name, manifest.license, manifest.ids) == ("pettingzoo_env", "MIT", ())
    assert (manifest.distribution, manifest.image) == (
        "openenv-gym-pettingzoo",
        "openenv-gym-pettingzoo",
    )
    assert app.name == "pettingzoo_env"


def test_one_agent_is_refused() -> None:
    with pytest.raises(errors.InvalidOptionError, match="aec_env"):
        app.open({"env_id": "classic/rps-v2"})
    assert app.schemas() == {"action": {}, "observation": {}, "state": {}}


@pytest.mark.parametrize("name", CLASSICS)
def test_each_classic_is_played(name: str) -> None:
    env = aec_env(name, provider="thread")
    play(env, seed=3, steps=60)
    env.close()


def play(env: Any, seed: int, steps: int) -> list[Any]:
    """Play at random, over and over; return what was told."""
    generator = np.random.default_rng(seed)
    told: list[Any] = []
    env.reset(seed=seed)
    for _ in range(steps):
        observation, reward, terminated, truncated, _info = env.last()
        agent = env.agent_selection
        told.append((agent, reward, terminated, truncated))
        assert observation in env.observation_space(agent)
        mask = observation.get("action_mask") if isinstance(observation, dict) else None
        if terminated or truncated:
            env.step(None)
            if not env.agents:
                env.reset(seed=seed)
        elif mask is None:
            env.step(int(generator.integers(env.action_space(agent).n)))
        else:
            env.step(int(generator.choice(np.flatnonzero(mask))))
    return told


def test_what_is_missing_is_named() -> None:
    for name in ("pettingzoo.atari.pong_v3", "atari/pong-v3"):
        with pytest.raises(errors.InvalidOptionError) as caught:
            aec_env(name, provider="thread")
        assert caught.value.field == "env_id"


@pytest.fixture(scope="module")
def container(docker: Any) -> Iterator[SharedServer]:
    from tests.support.images import image

    image("pettingzoo_env")
    with start_server(provider="docker") as server:
        yield server


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", CLASSICS)
def test_each_classic_is_played_in_a_container(container: SharedServer, name: str) -> None:
    env = aec_env(name, server=container)
    here = aec_env(name, provider="thread")
    steps = 1000 if "rps" in name or "connect" in name else 100
    assert play(env, 5, steps) == play(here, 5, steps)
    env.close()
    here.close()


@pytest.mark.timeout(600)
def test_api_tests_and_pictures_in_a_container(container: SharedServer) -> None:
    env = aec_env("classic/tictactoe-v3", server=container, render_mode="rgb_array")
    warned(zoo.api_test, env, num_cycles=20)
    assert env.render().dtype == np.uint8
    env.close()
    together = parallel_env("classic/rps-v2", server=container)
    warned(zoo.parallel_api_test, together, num_cycles=50)
    together.close()
    envs = vector_env("classic/rps-v2", num_envs=6, num_servers=2, server=container)
    envs.reset(seed=1)
    for _ in range(20):
        envs.step({agent: envs.action_space(agent).sample() for agent in envs.possible_agents})
    envs.close()
