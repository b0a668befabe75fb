"""Positions as planes: AlphaZero's observation of 8 x 8 x 119.

After table S1 of the paper named in `chess_env.server.moves`, in its order of features; what it
leaves open is said here. Planes come first, then ranks and files from the player's own side: its
first rank is row 0, and file a is column 0 for both colours.

========== ==============================================================================
planes     meaning
========== ==============================================================================
0 to 5     own pawns, knights, bishops, rooks, queens, king: 1 where one stands
6 to 11    the opponent's
12, 13     1 everywhere if the position has come up before at least once, at least twice
14 to 111  the same 14 planes for the position one move of one side before, two, up to
           seven; 0 where the game had not begun
112        1 everywhere if the player is Black
113        number of the full move, at most 255
114, 115   1 everywhere if the player may castle on the king's side, on the queen's side
116, 117   the opponent likewise
118        moves of one side since the last capture or pawn move, at most 255
========== ==============================================================================
"""

from __future__ import annotations

from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from chess_env.models import PLANES
from chess_env.server.game import Game


__all__ = ["draw_planes"]

_HISTORY = 8
_EACH = 14  # planes of one position
_LARGEST = 255


def draw_planes(game: Game, player: chess.Color) -> NDArray[np.uint8]:
    """Return a game's position and the seven before it as planes.

    Args:
        game: The game.
        player: From whose side.

    Returns:
        Plane, rank, file. Shape (119, 8, 8), uint8.
    """
    planes = np.zeros((PLANES, 8, 8), np.uint8)
    last = game.positions[: -_HISTORY - 1 : -1]
    # Bit 8 * rank + file of a bitboard is that square.
    boards: NDArray[Any] = np.array([position.pieces for position in last], "<u8")
    bits = np.unpackbits(boards.view(np.uint8), bitorder="little")
    squares = bits.reshape(len(last), 12, 8, 8)
    if player == chess.BLACK:
        squares = np.concatenate([squares[:, 6:], squares[:, :6]], axis=1)[:, :, ::-1]
    history = planes[: _HISTORY * _EACH].reshape(_HISTORY, _EACH, 8, 8)
    history[: len(last), :12] = squares
    for age, position in enumerate(last):
        history[age, 12] = position.times >= 2
        history[age, 13] = position.times >= 3
    board = game.board
    planes[112] = player == chess.BLACK
    planes[113] = min(board.fullmove_number, _LARGEST)
    for plane, side in ((114, player), (116, not player)):
        planes[plane] = board.has_kingside_castling_rights(side)
        planes[plane + 1] = board.has_queenside_castling_rights(side)
    planes[118] = min(board.halfmove_clock, _LARGEST)
    return planes
