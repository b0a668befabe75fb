"""Games as plain data, and back."""

from __future__ import annotations

from typing import Annotated, Any

import chess
from pydantic import Field

from chess_env.server.game import Game
from openenv_gym.server import SavedState


__all__ = ["SavedGame"]


class SavedGame(SavedState):
    """What `ChessEnvironment.save_state` returns: where a game began, and its moves.

    Attributes:
        start_fen: Where it began.
        chess960: The rules by which it castles.
        moves: All moves, in UCI notation.
        illegal_moves: How many were tried.
        forfeited: The side to move lost by one.
        agent_color: Whom the agent plays, True for White; None for both.
        over: The agent was told of the end.
    """

    start_fen: str = Field(max_length=128)
    chess960: bool
    moves: list[Annotated[str, Field(max_length=5)]] = Field(max_length=1 << 16)
    illegal_moves: int = Field(ge=0, le=(1 << 63) - 1)
    forfeited: bool
    agent_color: bool | None
    over: bool

    @staticmethod
    def fields_of(game: Game) -> dict[str, Any]:
        """Return the fields that are a game's."""
        return {
            "start_fen": game.start_fen,
            "chess960": game.board.chess960,
            "moves": [move.uci() for move in game.board.move_stack],
            "illegal_moves": game.illegal_moves,
            "forfeited": game.forfeited,
        }

    def game(self, **rules: Any) -> Game:
        """Return the game.

        Args:
            **rules: As `Game` takes them.

        Raises:
            InvalidOptionError: It begins with no position, has a move that is not legal, or is not
                over and waits for the opponent.
        """
        try:
            board = chess.Board(self.start_fen, chess960=self.chess960)
            if not board.is_valid():
                raise ValueError(f"{board.fen()} is no position")
            game = Game(board, **rules)
            for uci in self.moves:
                move = board.parse_uci(uci)
                if not move:  # a null move, which python-chess takes in any position
                    raise ValueError(f"{uci!r} is no move")
                game.push(move)
        except ValueError as error:
            raise self.refusal(str(error)) from None
        # A step answers at once: where nobody has told the agent of an end, it is to move.
        if not self.over and self.agent_color not in (None, board.turn):
            raise self.refusal("it is not the agent's turn")
        game.illegal_moves, game.forfeited = self.illegal_moves, self.forfeited
        return game
