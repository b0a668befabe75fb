"""Maze: find the exit. Importing it brings the models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maze_env.models import MazeAction, MazeObservation, MazeState


if TYPE_CHECKING:
    from maze_env.client import MazeEnv

__all__ = ["MazeAction", "MazeEnv", "MazeObservation", "MazeState"]


def __getattr__(name: str) -> Any:
    if name == "MazeEnv":  # which a server does not need
        from maze_env.client import MazeEnv

        return MazeEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
