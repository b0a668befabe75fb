"""Mazes: read from text, or carved at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maze_env.models import MAX_SIZE
from openenv_gym.errors import InvalidOptionError


__all__ = ["Cell", "Maze", "carve_maze", "read_maze"]

Cell = tuple[int, int]
"""Column and row, from 0 at the upper left."""

_DIRECTIONS: tuple[Cell, ...] = ((0, -1), (0, 1), (-1, 0), (1, 0))


@dataclass(frozen=True)
class Maze:
    """A maze.

    Attributes:
        marks: ``#`` is a wall, ``S`` the start, ``E`` the exit, ``.`` any other cell. Shape
            (rows, columns), of one character each.
        start: Where episodes begin.
        exit: Where to go.
    """

    marks: NDArray[np.str_]
    start: Cell
    exit: Cell

    @property
    def lines(self) -> list[str]:
        """The maze as text, a line for each row."""
        return ["".join(row) for row in self.marks]

    def is_free(self, cell: Cell) -> bool:
        """Tell whether a cell is inside, and no wall."""
        rows, columns = self.marks.shape
        inside = 0 <= cell[0] < columns and 0 <= cell[1] < rows
        return inside and str(self.marks[cell[::-1]]) != "#"

    def around(self, cell: Cell) -> list[Cell]:
        """Return what is above, below, on the left and on the right, in the order of actions."""
        return [(cell[0] + column, cell[1] + row) for column, row in _DIRECTIONS]


def read_maze(text: Any) -> Maze:
    """Read a maze.

    Args:
        text: Lines, or one text with line breaks: ``#`` for walls, ``.`` for free cells, ``S``
            for the start (by default the upper left) and ``E`` for the exit (lower right).

    Raises:
        InvalidOptionError: It is no maze, or nobody can get to the exit.
    """
    lines = text.split() if isinstance(text, str) else text
    if not isinstance(lines, (list, tuple)) or not all(isinstance(line, str) for line in lines):
        raise _no_maze("expected lines of text")
    if not 2 <= len(lines) <= MAX_SIZE or not 2 <= len(lines[0]) <= MAX_SIZE:
        raise _no_maze(f"expected 2 to {MAX_SIZE} lines of 2 to {MAX_SIZE} cells")
    if any(len(line) != len(lines[0]) or line.strip("#.SE") for line in lines):
        raise _no_maze("expected lines of one length, made of '#', '.', 'S' and 'E'")
    marks = np.array([list(line) for line in lines])
    for mark, corner in (("S", (0, 0)), ("E", (-1, -1))):
        if not (marks == mark).any() and marks[corner] == ".":
            marks[corner] = mark
        if (marks == mark).sum() != 1:
            raise _no_maze(f"expected one {mark!r}, or a free corner for it")
    maze = Maze(marks, _find(marks, "S"), _find(marks, "E"))
    if maze.exit not in _reachable(maze):
        raise _no_maze("the exit cannot be reached")
    return maze


def carve_maze(size: int, rng: np.random.Generator) -> Maze:
    """Carve a maze at random, with one way between any two cells (depth-first search).

    Args:
        size: Rows and columns, an odd number.
        rng: Decides.
    """
    marks = np.full((size, size), "#")
    marks[0, 0] = "."
    trail = [(0, 0)]
    while trail:
        row, column = trail[-1]
        around = ((row - 2, column), (row + 2, column), (row, column - 2), (row, column + 2))
        ahead = [
            cell for cell in around if min(cell) >= 0 and max(cell) < size and marks[cell] == "#"
        ]
        if not ahead:
            trail.pop()
            continue
        cell = ahead[rng.integers(len(ahead))]
        marks[(row + cell[0]) // 2, (column + cell[1]) // 2] = marks[cell] = "."
        trail.append(cell)
    marks[0, 0], marks[-1, -1] = "S", "E"
    return Maze(marks, (0, 0), (size - 1, size - 1))


def _find(marks: NDArray[np.str_], mark: str) -> Cell:
    row, column = np.argwhere(marks == mark)[0]
    return int(column), int(row)


def _reachable(maze: Maze) -> set[Cell]:
    seen, trail = {maze.start}, [maze.start]
    while trail:
        for cell in maze.around(trail.pop()):
            if maze.is_free(cell) and cell not in seen:
                seen.add(cell)
                trail.append(cell)
    return seen


def _no_maze(why: str) -> InvalidOptionError:
    return InvalidOptionError(f"maze: {why}.", field="maze")
