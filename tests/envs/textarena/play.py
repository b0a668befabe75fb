"""Environments of TextArena, and a way to play them."""

from __future__ import annotations

import re

import gymnasium
import numpy as np

from openenv_gym.server.adapter import TypedEnv
from textarena_env.server.textarena_environment import TextArenaEnvironment


GUESS, TICTACTOE = "GuessTheNumber-v0", "TicTacToe-v0"


def make(env_id: str = GUESS, **options) -> TypedEnv:
    return TypedEnv(TextArenaEnvironment(env_id=env_id, **options))


def move(observation, rng: np.random.Generator) -> str:
    """Return a move that the last message names, or a number."""
    last = observation["messages"][-1]["content"] if observation["messages"] else ""
    named = re.findall(r"\[[^\[\]\n]{1,40}\]", last) or [f"[{n}]" for n in range(1, 21)]
    return named[rng.integers(len(named))]


def play(env: gymnasium.Env, steps: int, seed: int = 3) -> list:
    """Return everything that random moves bring, the resets between them included."""
    rng = np.random.default_rng(seed)
    seen = [env.reset(seed=seed)]
    for _ in range(steps):
        seen.append(env.step(move(seen[-1][0], rng)))
        assert seen[-1][0] in env.observation_space
        if seen[-1][2] or seen[-1][3]:
            seen.append(env.reset())
    return seen
