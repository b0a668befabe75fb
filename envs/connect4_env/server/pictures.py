"""The board as a picture."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from connect4_env.board import Board


__all__ = ["draw"]

_CELL = 32  # pixels
_BLUE, _EMPTY, _RED, _YELLOW = (20, 80, 180), (240, 240, 240), (210, 50, 40), (240, 200, 40)


def draw(board: Board) -> NDArray[np.uint8]:
    """Return the board; red discs are the first player's. Shape (192, 224, 3), uint8."""
    colours = np.array([_EMPTY, _RED, _YELLOW], np.uint8)  # -1 is the last one
    discs = colours[board.to_array()].repeat(_CELL, axis=0).repeat(_CELL, axis=1)
    y, x = np.mgrid[:_CELL, :_CELL] - (_CELL - 1) / 2
    hole = (x**2 + y**2 < (0.42 * _CELL) ** 2)[..., np.newaxis]
    picture: NDArray[np.uint8] = np.where(
        np.tile(hole, (6, 7, 1)), discs, np.array(_BLUE, np.uint8)
    )
    return picture
