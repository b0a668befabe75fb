"""Chess environments, and ways to play them."""

from __future__ import annotations

import shutil
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence

from chess_env.server.chess_environment import ChessEnvironment
from openenv_gym.server.adapter import TypedEnv


STOCKFISH = shutil.which("stockfish", path="/usr/games:/usr/bin:/usr/local/bin")

needs_stockfish = pytest.mark.skipif(STOCKFISH is None, reason="Stockfish is not installed")


def make(**options: Any) -> TypedEnv:
    return TypedEnv(ChessEnvironment(**options))


def choose(random: np.random.Generator, observation: Any, info: dict[str, Any]) -> Any:
    """Return any legal action."""
    if "action_mask" in info:
        return int(random.choice(np.flatnonzero(info["action_mask"])))
    moves = info["legal_moves"] if "legal_moves" in info else observation["legal_moves"]
    return moves[int(random.integers(len(moves)))]


def play(env: gymnasium.Env[Any, Any], steps: int, seed: int) -> list[Any]:
    """Return what some steps of legal moves give, and the resets between them."""
    random = np.random.default_rng(seed)
    seen: list[Any] = [env.reset(seed=seed)]
    observation, info = seen[0]
    for _ in range(steps):
        step = env.step(choose(random, observation, info))
        seen.append(step)
        observation, info = step[0], step[4]
        if step[2] or step[3]:
            observation, info = env.reset()
            seen.append((observation, info))
    return seen


def same(a: Any, b: Any) -> bool:
    return bool(data_equivalence(a, b, exact=True))
