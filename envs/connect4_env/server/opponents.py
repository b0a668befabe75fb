"""Opponents."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from connect4_env.board import Board


__all__ = ["Opponent", "minimax", "play_at_random"]

Opponent = Callable[[Board, np.random.Generator], int]
"""Chooses a column in a position that is not over."""

_ORDER = (3, 2, 4, 1, 5, 0, 6)  # the middle first: that is where most fours pass
_WIN = 1000


def play_at_random(board: Board, generator: np.random.Generator) -> int:
    """Choose any legal column."""
    return int(generator.choice(board.legal))


def minimax(depth: int) -> Opponent:
    """Return an opponent that looks so many half-moves ahead (alpha-beta).

    It wins as soon, and loses as late, as it sees; of columns that are as good, chance decides. A
    position that is open at the end of its sight counts as a draw.
    """

    def choose(board: Board, generator: np.random.Generator) -> int:
        # Each column exactly: with a window, those that are worse could seem to be as good.
        scores = {column: _score_after(board, column, depth) for column in board.legal}
        best = max(scores.values())
        return int(generator.choice([column for column in scores if scores[column] == best]))

    return choose


def _score_after(board: Board, column: int, depth: int) -> int:
    board.play(column)
    score = -_score(board, depth - 1, -_WIN, _WIN)
    board.undo()
    return score


def _score(board: Board, depth: int, alpha: int, beta: int) -> int:
    """Return what a position is worth to whoever's turn it is; sooner wins are worth more."""
    if board.winner is not None:
        return -(_WIN - len(board.moves))
    if depth == 0 or board.full:
        return 0
    for column in _ORDER:
        if column not in board.open:
            continue
        board.play(column)
        score = -_score(board, depth - 1, -beta, -alpha)
        board.undo()
        alpha = max(alpha, score)
        if alpha >= beta:
            break
    return alpha
