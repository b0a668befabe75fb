"""The rules: a snake in a walled world."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from snake_env.models import PLANES


__all__ = ["MAX_SIZE", "TURNS", "Cell", "Event", "Mark", "Snake"]

MAX_SIZE = 64
"""Most rows, and most columns."""


Cell = tuple[int, int]
"""Row and column, from 0 at the upper left."""

TURNS: tuple[Cell, ...] = ((-1, 0), (0, 1), (1, 0), (0, -1))
"""Up, right, down, left: the next one is a turn to the right."""


class Mark(IntEnum):
    """What is in a cell."""

    EMPTY = 0
    FRUIT = 1
    WALL = 2
    TAIL = 3
    BODY = 4
    HEAD = 5


class Event(IntEnum):
    """What a move leads to."""

    MOVED = 0
    ATE = 1
    WON = 2
    DIED = 3


# Planes 2 to 4 are those of other snakes.
_OWN = np.array([Mark.FRUIT, Mark.WALL, 255, 255, 255, Mark.TAIL, Mark.BODY, Mark.HEAD], np.uint8)
assert len(_OWN) == PLANES


class Snake:
    """A snake and its fruit.

    Args:
        shape: Height and width of the world, the walls around it included.
        body: Its cells, the head first.
        direction: Where it is heading, an index of `TURNS`.

    Attributes:
        body: As above.
        direction: As above.
        fruit: Where the fruit is; None where there is no room left.
        alive: It has run into nothing.
    """

    def __init__(self, shape: Cell, body: Iterable[Cell], direction: int) -> None:
        self.body = list(body)
        self.direction = direction
        self.fruit: Cell | None = None
        self.alive = True
        self._walls = np.full(shape, Mark.WALL, np.uint8)
        self._walls[1:-1, 1:-1] = Mark.EMPTY

    @classmethod
    def born(cls, shape: Cell, length: int, rng: np.random.Generator) -> Snake:
        """Return a straight snake at a random place, heading anywhere, with a fruit."""
        rows, columns = shape[0] - 2, shape[1] - 2
        fitting = [turn for turn in range(4) if length <= (columns if turn % 2 else rows)]
        direction = fitting[rng.integers(len(fitting))]
        along_row, along_column = TURNS[direction]
        tail = (
            _place(rows, along_row * (length - 1), rng),
            _place(columns, along_column * (length - 1), rng),
        )
        cells = [(tail[0] + i * along_row, tail[1] + i * along_column) for i in range(length)]
        snake = cls(shape, cells[::-1], direction)
        snake.grow_fruit(rng)
        return snake

    def move(self, direction: int, rng: np.random.Generator) -> Event:
        """Move by one cell; a snake cannot turn back, and goes on instead."""
        if (direction + 2) % 4 != self.direction:
            self.direction = direction
        row, column = self.body[0]
        head = (row + TURNS[self.direction][0], column + TURNS[self.direction][1])
        ate = head == self.fruit
        # The tail moves on, unless the snake grows.
        if self._walls[head] or head in (self.body if ate else self.body[:-1]):
            self.alive = False
            return Event.DIED
        self.body.insert(0, head)
        if not ate:
            self.body.pop()
            return Event.MOVED
        self.grow_fruit(rng)
        return Event.WON if self.fruit is None else Event.ATE

    def grow_fruit(self, rng: np.random.Generator) -> None:
        """Have a fruit grow in an empty cell."""
        self.fruit = None
        empty = np.argwhere(self.grid() == Mark.EMPTY)
        if len(empty):
            row, column = empty[rng.integers(len(empty))]
            self.fruit = (int(row), int(column))

    def is_possible(self) -> bool:
        """Tell whether the snake hangs together, within the walls, and apart from the fruit."""
        height, width = self._walls.shape
        cells = [*self.body, *([] if self.fruit is None else [self.fruit])]
        inside = all(0 < row < height - 1 and 0 < column < width - 1 for row, column in cells)
        joints = zip(self.body, self.body[1:], strict=False)
        near = all(abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1 for a, b in joints)
        return inside and near and len(set(cells)) == len(cells)

    def grid(self) -> NDArray[np.uint8]:
        """Return all cells as numbers of `Mark`. Shape (height, width)."""
        grid: NDArray[np.uint8] = self._walls.copy()
        if self.fruit is not None:
            grid[self.fruit] = Mark.FRUIT
        for cell in self.body:
            grid[cell] = Mark.BODY
        grid[self.body[-1]] = Mark.TAIL
        grid[self.body[0]] = Mark.HEAD
        return grid

    def planes(self, vision_range: int | None) -> NDArray[np.float32]:
        """Return what the snake sees. Shape (height, width, 8).

        Args:
            vision_range: How many cells it sees in each direction, beyond the walls nothing; None
                for all of the world.
        """
        grid = self.grid()
        if vision_range is not None:
            row, column = self.body[0]
            side = 2 * vision_range + 1
            grid = np.pad(grid, vision_range)[row : row + side, column : column + side]
        planes: NDArray[np.float32] = (grid[..., np.newaxis] == _OWN).astype(np.float32)
        return planes


def _place(room: int, span: int, rng: np.random.Generator) -> int:
    """Draw where something of a length, to either side, begins within the walls."""
    first = 1 + int(rng.integers(room - abs(span)))
    return first if span >= 0 else first - span
