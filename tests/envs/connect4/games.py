"""Games of Connect Four, for the tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from connect4_env.server.connect4_environment import Connect4Environment
from openenv_gym.server.adapter import TypedEnv


# Columns that end in a four of the first player, and how it lies.
WINS = {
    "column": [0, 1, 0, 1, 0, 1, 0],
    "row": [0, 0, 1, 1, 2, 2, 3],
    "rising": [0, 1, 1, 2, 2, 3, 2, 3, 3, 6, 3],
    "falling": [6, 5, 5, 4, 4, 3, 4, 3, 3, 0, 3],
}
SECOND_WINS = [6, *WINS["column"]]
DRAW = [0, 1] * 3 + [1, 0] * 3 + [2, 3] * 3 + [3, 2] * 3 + [4, 5] * 3 + [5, 4] * 3 + [6] * 6


def make(**options: Any) -> TypedEnv:
    return TypedEnv(Connect4Environment(**options))


def random_game(env: Any, seed: int, games: int = 1) -> list[Any]:
    """Play legal moves at random; return all that was seen."""
    generator = np.random.default_rng(seed)
    seen: list[Any] = []
    observation, info = env.reset(seed=seed)
    for _ in range(games):
        seen.append((observation["board"].tolist(), info["action_mask"].tolist()))
        over = False
        while not over:
            action = int(generator.choice(np.flatnonzero(info["action_mask"])))
            observation, reward, terminated, truncated, info = env.step(action)
            seen.append((action, observation["board"].tolist(), reward, terminated, truncated))
            over = terminated or truncated
        observation, info = env.reset()
    return seen
