"""Chess. Importing this package brings the models only, not the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chess_env.models import (
    ChessAction,
    ChessIndexAction,
    ChessObservation,
    ChessPlanesObservation,
    ChessState,
)
from chess_env.options import ChessOptions
from chess_env.prompts import RULES, draw_board, find_move, move_prompt


if TYPE_CHECKING:
    from chess_env.client import ChessEnv

__all__ = [
    "RULES",
    "ChessAction",
    "ChessEnv",
    "ChessIndexAction",
    "ChessObservation",
    "ChessOptions",
    "ChessPlanesObservation",
    "ChessState",
    "draw_board",
    "find_move",
    "move_prompt",
]


def __getattr__(name: str) -> Any:
    if name == "ChessEnv":  # which a server does not need
        from chess_env.client import ChessEnv

        return ChessEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
