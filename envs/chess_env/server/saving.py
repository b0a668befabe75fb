"""Games as plain data, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import chess

from chess_env.server.game import Game


__all__ = ["restore_game", "save_game"]


def save_game(game: Game) -> dict[str, Any]:
    """Return a game as plain data: where it began, and its moves."""
    return {
        "start_fen": game.start_fen,
        "chess960": game.board.chess960,
        "moves": [move.uci() for move in game.board.move_stack],
        "illegal_moves": game.illegal_moves,
        "forfeited": game.forfeited,
    }


def restore_game(saved: Mapping[str, Any], **rules: Any) -> Game:
    """Return the game that `save_game` returned.

    Args:
        saved: The data.
        **rules: As `Game` takes them.

    Raises:
        KeyError, TypeError, ValueError: The data is no such game.
    """
    board = chess.Board(saved["start_fen"], chess960=bool(saved["chess960"]))
    if not board.is_valid():
        raise ValueError(f"{board.fen()} is no position")
    game = Game(board, **rules)
    for move in saved["moves"]:
        game.push(board.parse_uci(move))
    game.illegal_moves = int(saved["illegal_moves"])
    game.forfeited = bool(saved["forfeited"])
    return game
