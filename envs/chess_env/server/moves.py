"""Moves as numbers: AlphaZero's encoding of 8 x 8 x 73.

After D. Silver et al., *A general reinforcement learning algorithm that masters chess, shogi and Go
through self-play*, Science 362 (2018), preprint arXiv:1712.01815, section *Representation* and
table S2: a move is the square that the piece leaves, and one of 73 planes that say where it goes.
The paper leaves the order of squares and planes open; here a move's number is
``square * 73 + plane``.

Squares count from a1 = 0 by files to h8 = 63. Black sees the board mirrored top to bottom (a8 is
its a1, files stay), so that its pawns go up as White's do.

======== ==================================================================================
planes   meaning
======== ==================================================================================
0 to 55  like a queen: ``direction * 7 + distance - 1``; directions N, NE, E, SE, S, SW, W, NW.
         A pawn that gets to the last rank like this becomes a queen. Castling is the king's
         move, of two squares, or in Chess960 onto its own rook.
56 to 63 like a knight, clockwise from the one that goes two up and one right
64 to 72 a pawn that becomes less than a queen: ``64 + piece * 3 + side``; pieces knight,
         bishop, rook; sides left (towards file a), straight on, right
======== ==================================================================================
"""

from __future__ import annotations

import chess
import numpy as np
from numpy.typing import NDArray

from chess_env.models import ACTIONS


__all__ = ["action_mask", "decode", "encode"]

_PLANES = 73
_QUEEN = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))  # file, rank
_KNIGHT = ((1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2))
_LESSER = (chess.KNIGHT, chess.BISHOP, chess.ROOK)

_STEPS: tuple[tuple[int, int, chess.PieceType | None], ...] = (
    *((file * n, rank * n, None) for file, rank in _QUEEN for n in range(1, 8)),
    *((file, rank, None) for file, rank in _KNIGHT),
    *((side, 1, piece) for piece in _LESSER for side in (-1, 0, 1)),
)
"""What each plane does: files to the right, ranks up, and what a pawn becomes."""

_Known = tuple[chess.Square, chess.Square, chess.PieceType | None]


def _table() -> list[_Known | None]:
    """Return what each number means to White; None where the move would leave the board."""
    moves: list[_Known | None] = []
    for square in chess.SQUARES:
        for right, up, piece in _STEPS:
            file, rank = chess.square_file(square) + right, chess.square_rank(square) + up
            inside = 0 <= file < 8 and 0 <= rank < 8
            # A pawn becomes something else on the last rank, and only there.
            if inside and (piece is None or rank == 7):
                moves.append((square, chess.square(file, rank), piece))
            else:
                moves.append(None)
    return moves


_MOVES = _table()
_NUMBERS = {known: number for number, known in enumerate(_MOVES) if known is not None}


def encode(move: chess.Move, turn: chess.Color) -> int:
    """Return the number of a move.

    Args:
        move: A move that a piece could make on an empty board.
        turn: Who makes it.

    Returns:
        A number from 0 to 4671.
    """
    lesser = None if move.promotion == chess.QUEEN else move.promotion
    return _NUMBERS[_seen(move.from_square, turn), _seen(move.to_square, turn), lesser]


def decode(number: int, board: chess.Board) -> chess.Move | None:
    """Return the move that a number means on a board, legal there or not.

    Args:
        number: From 0 to 4671.
        board: The board, which says whose move it is, and what is a pawn.

    Returns:
        The move; None where it would leave the board.
    """
    known = _MOVES[number]
    if known is None:
        return None
    from_square, to_square, promotion = known
    last_rank = chess.square_rank(to_square) == 7
    from_square, to_square = _seen(from_square, board.turn), _seen(to_square, board.turn)
    if last_rank and promotion is None and board.piece_type_at(from_square) == chess.PAWN:
        promotion = chess.QUEEN
    return chess.Move(from_square, to_square, promotion)


def action_mask(board: chess.Board, moves: list[chess.Move]) -> NDArray[np.int8]:
    """Return which numbers are legal moves.

    Args:
        board: The board.
        moves: Its legal moves.

    Returns:
        1 where legal, else 0. Shape (4672,), int8.
    """
    mask = np.zeros(ACTIONS, np.int8)
    mask[[encode(move, board.turn) for move in moves]] = 1
    return mask


def _seen(square: chess.Square, turn: chess.Color) -> chess.Square:
    return square if turn == chess.WHITE else chess.square_mirror(square)
