"""A board as a picture: squares and pieces of 12 x 12 cells, drawn here, without a font."""

from __future__ import annotations

import functools

import chess
import numpy as np
from numpy.typing import NDArray


__all__ = ["SIZE", "draw"]

_CELLS = 12  # of a square, in each direction
_SCALE = 4  # pixels of a cell, likewise

SIZE = 8 * _CELLS * _SCALE
"""Height and width of a picture, in pixels."""

# "#" is the outline, "o" the piece.
_SHAPES = {
    chess.PAWN: """
        ............
        ............
        .....##.....
        ....#oo#....
        ....#oo#....
        .....##.....
        ....#oo#....
        ....#oo#....
        ...#oooo#...
        ..#oooooo#..
        ..########..
        ............""",
    chess.KNIGHT: """
        ............
        .....#.#....
        ....#o#o#...
        ...#ooooo#..
        ..#oo#oooo#.
        .#oooooooo#.
        .#oo##oooo#.
        ..##..#ooo#.
        .....#oooo#.
        ...##ooooo#.
        ..#########.
        ............""",
    chess.BISHOP: """
        .....##.....
        ....#oo#....
        ...#oo#o#...
        ..#oo#ooo#..
        ..#oooooo#..
        ..#oooooo#..
        ...#oooo#...
        ....####....
        ...#oooo#...
        ..#oooooo#..
        .##########.
        ............""",
    chess.ROOK: """
        ............
        .###.##.###.
        .#o#.##.#o#.
        .#o######o#.
        .#oooooooo#.
        ..########..
        ...#oooo#...
        ...#oooo#...
        ..#oooooo#..
        .#oooooooo#.
        .##########.
        ............""",
    chess.QUEEN: """
        .....##.....
        .##.#oo#.##.
        .##..##..##.
        .##.#oo#.##.
        .#o##oo##o#.
        .#oooooooo#.
        .#oooooooo#.
        ..#oooooo#..
        ..########..
        ..#oooooo#..
        .##########.
        ............""",
    chess.KING: """
        .....##.....
        ....####....
        .....##.....
        ..##.##.##..
        .#oo####oo#.
        .#ooo##ooo#.
        .#oooooooo#.
        ..#oooooo#..
        ..########..
        ..#oooooo#..
        .##########.
        ............""",
}

_LIGHT, _DARK = (240, 217, 181), (181, 136, 99)
_LIGHT_MOVED, _DARK_MOVED = (206, 210, 107), (170, 162, 58)
_WHITE, _WHITE_OUTLINE = (250, 250, 250), (40, 40, 40)
_BLACK, _BLACK_OUTLINE = (60, 60, 60), (10, 10, 10)


def draw(board: chess.Board, player: chess.Color) -> NDArray[np.uint8]:
    """Return a picture of a board, with the squares of the last move in another colour.

    Args:
        board: The board.
        player: Whose side is below.

    Returns:
        Shape (384, 384, 3), uint8.
    """
    picture = np.empty((8 * _CELLS, 8 * _CELLS, 3), np.uint8)
    last = board.peek() if board.move_stack else None
    moved = (last.from_square, last.to_square) if last else ()
    for square in chess.SQUARES:
        row, column = 7 - chess.square_rank(square), chess.square_file(square)
        if player == chess.BLACK:
            row, column = 7 - row, 7 - column
        light = (chess.square_rank(square) + chess.square_file(square)) % 2
        cells = picture[row * _CELLS : (row + 1) * _CELLS, column * _CELLS : (column + 1) * _CELLS]
        if square in moved:
            cells[:] = _LIGHT_MOVED if light else _DARK_MOVED
        else:
            cells[:] = _LIGHT if light else _DARK
        piece = board.piece_at(square)
        if piece is not None:
            inside, outline = _shape(piece.piece_type)
            cells[inside] = _WHITE if piece.color else _BLACK
            cells[outline] = _WHITE_OUTLINE if piece.color else _BLACK_OUTLINE
    return picture.repeat(_SCALE, axis=0).repeat(_SCALE, axis=1)


@functools.cache
def _shape(piece: chess.PieceType) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return where a piece is, and where its outline; both of shape (12, 12)."""
    cells = np.array([list(line) for line in _SHAPES[piece].split()])
    return cells == "o", cells == "#"
