"""The environments in their image."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest

import openenv_gym  # noqa: F401  # registers the ids
from tests.support.images import image

from .play import play, same


@pytest.mark.timeout(600)  # the first test that needs the image has it built
@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("openenv/OpenSpiel-v0", {"game": "tic_tac_toe", "opponent": "mcts", "mcts_simulations": 10}),
        ("openenv/OpenSpiel-v0", {"game": "2048"}),
        ("openenv/TextBlackjack-v0", {"rules": "openspiel"}),
    ],
    ids=["tic_tac_toe", "2048", "blackjack"],
)  # fmt: skip
def test_a_thousand_steps_in_a_container_are_those_of_a_thread(
    docker: Any, env_id: str, options: dict[str, Any]
) -> None:
    image("openspiel_env")
    far = gymnasium.make(env_id, provider="docker", **options)
    near = gymnasium.make(env_id, provider="thread", **options)
    assert same(play(far, 1000), play(near, 1000))
    far.close()
    near.close()


@pytest.mark.timeout(600)
def test_random_steps_may_be_illegal(docker: Any) -> None:
    image("openspiel_env")
    env = gymnasium.make("openenv/OpenSpiel-v0", game="connect_four", provider="docker")
    env.action_space.seed(0)
    env.reset(seed=0)
    for _ in range(1000):
        observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
        assert observation in env.observation_space
        if terminated or truncated:
            env.reset()
    env.close()
