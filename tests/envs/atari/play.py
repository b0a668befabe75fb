"""Environments of both kinds, ours and ale-py's own, and ways to play them."""

from __future__ import annotations

import gymnasium
from gymnasium.utils.env_checker import data_equivalence

from atari_env.server.atari_environment import AtariEnvironment
from openenv_gym.server.adapter import TypedEnv


STEPS = 300


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
