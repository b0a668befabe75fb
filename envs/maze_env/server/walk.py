"""The rules: a walk through a maze, and what it earns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from maze_env.server.maze import Maze


__all__ = ["REWARDS", "Walk"]

REWARDS = {"exit": 10.0, "move": -0.05, "visited": -0.25, "wall": -0.75}
"""What a move earns: the one that leads to the exit, one to a cell that is new, one to a cell where
the walk has been, and one against a wall, which leads nowhere."""


class Walk:
    """A walk that has just begun.

    Args:
        maze: Where.
        rewards: What moves earn; see `REWARDS`.
        min_score: The walk is lost below this sum.

    Attributes:
        maze: Where.
        cell: Where it has led to.
        previous: Where it was before the last move.
        visited: All cells that it has been to.
        score: What it has earned so far.
    """

    def __init__(self, maze: Maze, rewards: Mapping[str, float], min_score: float) -> None:
        self.maze = maze
        self.cell = self.previous = maze.start
        self.visited = {maze.start}
        self.score = 0.0
        self._rewards = rewards
        self._min_score = min_score

    @property
    def status(self) -> Literal["playing", "win", "lose"]:
        """How it stands."""
        if self.cell == self.maze.exit:
            return "win"
        return "lose" if self.score < self._min_score else "playing"

    def open_moves(self) -> NDArray[np.int8]:
        """Return a mask of the moves that no wall is in the way of. Shape (4,)."""
        return np.array([self.maze.is_free(cell) for cell in self.maze.around(self.cell)], np.int8)

    def move(self, action: int) -> float:
        """Move on, and return what that earns."""
        target = self.maze.around(self.cell)[action]
        self.previous = self.cell
        if not self.maze.is_free(target):
            kind = "wall"
        else:
            kind = "visited" if target in self.visited else "move"
            self.cell = target
            self.visited.add(target)
        reward = self._rewards["exit" if target == self.maze.exit else kind]
        self.score += reward
        return reward
