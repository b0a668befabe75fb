"""Environments of OpenSpiel, and ways to play them."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import data_equivalence

from openenv_gym.server.adapter import TypedEnv
from openspiel_env.server.blackjack import TextBlackjackEnvironment
from openspiel_env.server.openspiel_environment import OpenSpielEnvironment


def make(game: str = "catch", **options) -> TypedEnv:
    return TypedEnv(OpenSpielEnvironment(game, **options))


def make_blackjack(rules: str = "gymnasium", **options) -> TypedEnv:
    return TypedEnv(TextBlackjackEnvironment(rules, **options))


def same(a, b) -> bool:
    return data_equivalence(a, b, exact=True)


def choose(info: dict, rng: np.random.Generator):
    """Return a random legal action: a number, or in words its name."""
    if "legal_actions" in info:
        return str(rng.choice(info["legal_actions"]))
    return np.int64(rng.choice(np.flatnonzero(info["action_mask"])))


def play(env: gymnasium.Env, steps: int, *, seed: int | None = 0, actions_seed: int = 0) -> list:
    """Play random legal actions, and return all that comes of them, resets included."""
    rng = np.random.default_rng(actions_seed)
    results = [env.reset(seed=seed)]
    while len(results) < steps:
        results.append(env.step(choose(results[-1][-1], rng)))
        assert results[-1][0] in env.observation_space
        if results[-1][2] or results[-1][3]:
            results.append(env.reset())
    return results
