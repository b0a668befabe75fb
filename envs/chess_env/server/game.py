"""One game: the board, the positions before, and whether it is over."""

from __future__ import annotations

import functools
from collections import Counter
from typing import NamedTuple

import chess


__all__ = ["End", "Game", "Position"]

_PIECES = tuple(
    (piece, color) for color in (chess.WHITE, chess.BLACK) for piece in chess.PIECE_TYPES
)


class Position(NamedTuple):
    """A position that has come up.

    Attributes:
        pieces: Bitboards of White's pawns, knights, bishops, rooks, queens and king, then of
            Black's.
        times: How often it has come up, with this time: same pieces, same side to move, same
            rights to castle and to capture in passing (FIDE's laws, 9.2.3).
    """

    pieces: tuple[int, ...]
    times: int


class End(NamedTuple):
    """How a game ended.

    Attributes:
        reason: "checkmate", "stalemate", ... (python-chess's terminations), "illegal_move", or
            "max_moves".
        winner: Who won; None for a draw, and where the game was cut off.
        truncated: It was cut off.
    """

    reason: str
    winner: chess.Color | None
    truncated: bool = False

    @property
    def result(self) -> str | None:
        """The result as a table of a tournament has it; None where the game was cut off."""
        if self.truncated:
            return None
        return {chess.WHITE: "1-0", chess.BLACK: "0-1", None: "1/2-1/2"}[self.winner]


class Game:
    """A game of chess by python-chess's rules.

    Args:
        board: Where it begins; the board is the game's from now on.
        claim_draws: A draw that a player could claim ends the game by itself.
        max_moves: It is cut off after this many moves of one side, tried ones included; None for
            never.

    Attributes:
        board: The board, with the moves that were made.
        positions: All positions so far, the present one last.
        illegal_moves: How many were tried.
        forfeited: The side to move lost by one.
    """

    def __init__(self, board: chess.Board, *, claim_draws: bool, max_moves: int | None) -> None:
        self.board = board
        self.start_fen = board.fen()
        self.positions: list[Position] = []
        self.illegal_moves = 0
        self.forfeited = False
        self._claim_draws = claim_draws
        self._max_moves = max_moves
        self._counts: Counter[object] = Counter()
        self._note()

    def push(self, move: chess.Move) -> None:
        """Make a legal move."""
        self.board.push(move)
        self._note()

    def refuse(self, *, forfeit: bool) -> None:
        """Count a move of the side to move that is not legal; with `forfeit` it loses by it."""
        self.illegal_moves += 1
        self.forfeited = forfeit
        self._forget()

    def read(self, text: str) -> chess.Move | None:
        """Return the move that a text names in UCI notation; None where it names no legal one."""
        try:
            return self.board.parse_uci(text)
        except ValueError:
            return None

    @functools.cached_property
    def legal(self) -> list[chess.Move]:
        """The legal moves of the side to move; none after the end."""
        over = self.end is not None and not self.end.truncated
        return [] if over else list(self.board.legal_moves)

    @functools.cached_property
    def end(self) -> End | None:
        """How the game ended; None while it goes on.

        Mate, stalemate, too little material, fivefold repetition and 75 moves without pawn or
        capture end it in any case; threefold repetition and 50 moves where draws are claimed.
        """
        board = self.board
        if self.forfeited:
            return End("illegal_move", not board.turn)
        outcome = board.outcome()
        if outcome is not None:
            return End(outcome.termination.name.lower(), outcome.winner)
        if self._claim_draws and self.positions[-1].times >= 3:
            return End("threefold_repetition", None)
        if self._claim_draws and board.halfmove_clock >= 100:
            return End("fifty_moves", None)
        tried = len(self.positions) - 1 + self.illegal_moves
        if self._max_moves is not None and tried >= self._max_moves:
            return End("max_moves", None, truncated=True)
        return None

    def _note(self) -> None:
        board = self.board
        pieces = tuple(board.pieces_mask(piece, color) for piece, color in _PIECES)
        in_passing = board.ep_square if board.has_legal_en_passant() else None
        key = (pieces, board.turn, board.clean_castling_rights(), in_passing)
        self._counts[key] += 1
        self.positions.append(Position(pieces, self._counts[key]))
        self._forget()

    def _forget(self) -> None:
        for name in ("legal", "end"):
            vars(self).pop(name, None)
