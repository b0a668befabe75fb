"""What goes in and out of a game of chess.

Names of models and fields are OpenEnv's, but for the two that have no counterpart there:
`ChessIndexAction` and `ChessPlanesObservation`.
"""

# No `from __future__ import annotations`: Pydantic needs the annotations themselves.

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from openenv_gym.models import Action, Array, Observation, State


__all__ = [
    "ACTIONS",
    "MAX_FEN_LENGTH",
    "MAX_MOVE_LENGTH",
    "PLANES",
    "ChessAction",
    "ChessIndexAction",
    "ChessObservation",
    "ChessPlanesObservation",
    "ChessState",
]

ACTIONS = 4672
"""Moves of AlphaZero's encoding: 8 x 8 squares, 73 planes (`chess_env.server.moves`)."""

PLANES = 119
"""Planes of AlphaZero's observation (`chess_env.server.planes`)."""

MAX_MOVE_LENGTH = 64
"""Longest text that is taken for an attempt at a move, in characters."""

MAX_FEN_LENGTH = 100
"""Longest position, in characters: 71 for the pieces, the rest for castling, clocks and so on."""

UciMove = Annotated[str, Field(pattern=r"^[a-h][1-8][a-h][1-8][bnqr]?$")]
"""A move in UCI notation: from, to, and what a pawn becomes."""


class ChessAction(Action):
    """A move in UCI notation: "e2e4", "e7e8q" for a promotion, "e1g1" for castling.

    Attributes:
        move: The move. Any other text is an illegal move.
    """

    move: str = Field(max_length=MAX_MOVE_LENGTH, description="Move in UCI notation, as e2e4")


class ChessIndexAction(Action):
    """A move as a number in AlphaZero's encoding, as the side to move sees the board.

    Attributes:
        action_id: Square that the piece leaves times 73, plus the plane of the move.
    """

    action_id: int = Field(ge=0, lt=ACTIONS, description="Square times 73, plus plane")


class ChessObservation(Observation):
    """The position after a move, and what can be played now.

    Attributes:
        fen: The position in Forsyth-Edwards notation.
        legal_moves: The legal moves of the side to move in UCI notation; none after the end.
        is_check: Whether the side to move is in check.
        result: "1-0", "0-1" or "1/2-1/2" when the game is over.
    """

    fen: str = Field(max_length=MAX_FEN_LENGTH, description="Position in FEN")
    legal_moves: list[UciMove] = Field(default_factory=list, description="Legal moves, in UCI")
    is_check: bool = Field(default=False, description="The side to move is in check")
    result: Literal["1-0", "0-1", "1/2-1/2"] | None = Field(
        default=None, description="Result, when the game is over"
    )


class ChessPlanesObservation(Observation):
    """The position and the seven before it as planes, after AlphaZero.

    Attributes:
        planes: Plane, rank, file, from the player's own side. Shape (119, 8, 8), uint8.
    """

    planes: Annotated[NDArray[np.uint8], Array(shape=(PLANES, 8, 8), dtype="uint8")] = Field(
        description="Plane, rank, file"
    )


class ChessState(State):
    """The game so far.

    Attributes:
        fen: The position.
        current_player: "white" or "black".
        move_history: Moves of both sides in UCI notation.
        agent_color: Whom the agent plays; None where it plays both.
        opponent: Whom it plays against.
        start_fen: Where the game began.
        chess960: It follows the rules of Chess960.
        result: As in `ChessObservation`.
        termination: Why the game is over: "checkmate", "stalemate", ...
    """

    fen: str = ""
    current_player: Literal["white", "black"] = "white"
    move_history: list[str] = Field(default_factory=list)
    agent_color: Literal["white", "black"] | None = None
    opponent: str = "random"
    start_fen: str = ""
    chess960: bool = False
    result: str | None = None
    termination: str | None = None
