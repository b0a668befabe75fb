"""Where a game begins."""

from __future__ import annotations

import chess
import numpy as np

from chess_env.options import StartOptions
from chess_env.server.game import Game
from openenv_gym.errors import InvalidOptionError


__all__ = ["start_board"]


def start_board(
    start: StartOptions, random: np.random.Generator, *, claim_draws: bool
) -> chess.Board:
    """Return the board with which a game begins.

    Args:
        start: What is asked for.
        random: Where chance comes from, for ``chess960="random"``.
        claim_draws: A draw that a player could claim ends the game by itself.

    Raises:
        InvalidOptionError: The FEN is none, or no game can be played from there.
    """
    if start.chess960 is not None:
        number = start.chess960
        return chess.Board.from_chess960_pos(
            number if isinstance(number, int) else int(random.integers(960))
        )
    if start.fen is None:
        return chess.Board()
    # Some rights to castle are known to Chess960 alone.
    for chess960 in (False, True):
        try:
            board = chess.Board(start.fen, chess960=chess960)
        except ValueError as error:
            raise _refused(start.fen, str(error)) from None
        if board.is_valid():
            # Asked of the game itself, so that no position is taken in which it would be over.
            end = Game(board, claim_draws=claim_draws, max_moves=None).end
            if end is not None:
                raise _refused(start.fen, f"the game is over there, by {end.reason}")
            return board
    flags = [flag.name or "?" for flag in chess.Status if flag and flag in board.status()]
    raise _refused(start.fen, ", ".join(flags).lower().replace("_", " "))


def _refused(fen: str, reason: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"fen={fen!r}: expected a position that can be played from; {reason}.",
        field="fen",
        hint=f"The usual one is {chess.STARTING_FEN!r}.",
    )
