"""Environments of this project without a server, as ids of Gymnasium: ``benchmarks/Maze-v0``."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import gymnasium

from openenv_gym.server.adapter import TypedEnv


__all__ = ["OWN"]

OWN = {
    "GridWorld-v0": "grid_world_env.server.grid_world_environment:GridWorldEnvironment",
    "Maze-v0": "maze_env.server.maze_environment:MazeEnvironment",
    "Snake-v0": "snake_env.server.snake_environment:SnakeEnvironment",
}
"""Id -> class."""


def _make(path: str, **options: Any) -> gymnasium.Env[Any, Any]:
    module, _, name = path.partition(":")
    return TypedEnv(getattr(importlib.import_module(module), name)(**options))


for _name, _path in OWN.items():
    gymnasium.register(f"benchmarks/{_name}", entry_point=functools.partial(_make, _path))
