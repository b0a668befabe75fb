"""The rules of Connect Four.

A position is two integers, one for each player. A column takes seven bits, the lowest row first,
and the seventh is always empty, so that four in a row are found by shifting: down a column by 1,
along a row by 7, along the diagonals by 6 and 8.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


__all__ = ["COLUMNS", "ROWS", "Board"]

ROWS, COLUMNS = 6, 7
_BITS = ROWS + 1  # of a column
_SHIFTS = (1, _BITS, _BITS - 1, _BITS + 1)


class Board:
    """A position, and the moves that led there.

    Attributes:
        moves: Columns, in the order in which discs were dropped; the players take turns.
    """

    def __init__(self) -> None:
        self.moves: list[int] = []
        self._discs = [0, 0]
        self._heights = [0] * COLUMNS

    @property
    def player(self) -> int:
        """Whose turn it is: 0 or 1."""
        return len(self.moves) % 2

    @property
    def legal(self) -> list[int]:
        """Columns that have room, from the left; none when the game is over."""
        return [] if self.winner is not None else self.open

    @property
    def open(self) -> list[int]:
        """Columns that have room, whoever may have won."""
        return [column for column in range(COLUMNS) if self._heights[column] < ROWS]

    @property
    def winner(self) -> int | None:
        """Who has four in a row: only the player who moved last can."""
        last = 1 - self.player
        return last if _has_four(self._discs[last]) else None

    @property
    def full(self) -> bool:
        """No column has room."""
        return len(self.moves) == ROWS * COLUMNS

    @property
    def over(self) -> bool:
        """The game is over."""
        return self.full or self.winner is not None

    def play(self, column: int) -> None:
        """Drop a disc of whoever's turn it is.

        Raises:
            ValueError: The column has no room, or there is no such column.
        """
        if not 0 <= column < COLUMNS or self._heights[column] >= ROWS:
            raise ValueError(f"Column {column} has no room.")
        self._discs[self.player] |= 1 << (column * _BITS + self._heights[column])
        self._heights[column] += 1
        self.moves.append(column)

    def undo(self) -> None:
        """Take the last disc back."""
        column = self.moves.pop()
        self._heights[column] -= 1
        self._discs[self.player] ^= 1 << (column * _BITS + self._heights[column])

    def cells(self, player: int) -> NDArray[np.bool_]:
        """Return where a player's discs are; shape (6, 7), row 0 is the top."""
        discs = self._discs[player]
        rows = [
            [discs >> (column * _BITS + row) & 1 for column in range(COLUMNS)]
            for row in reversed(range(ROWS))
        ]
        return np.array(rows, np.bool_)

    def to_array(self) -> NDArray[np.int8]:
        """Return the board: 1 and -1 for the discs of players 0 and 1; shape (6, 7), int8."""
        return self.cells(0).astype(np.int8) - self.cells(1).astype(np.int8)

    def __str__(self) -> str:
        marks = {0: ".", 1: "X", -1: "O"}
        lines = [" ".join(marks[cell] for cell in row) for row in self.to_array().tolist()]
        return "\n".join([*lines, " ".join(map(str, range(COLUMNS)))])


def _has_four(discs: int) -> bool:
    for shift in _SHIFTS:
        pairs = discs & (discs >> shift)
        if pairs & (pairs >> (2 * shift)):
            return True
    return False
