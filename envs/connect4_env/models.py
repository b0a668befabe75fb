"""What goes in and out of Connect Four. The names are OpenEnv's."""

# No `from __future__ import annotations`: Pydantic needs the annotations themselves.

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from connect4_env.board import COLUMNS, ROWS
from openenv_gym.models import Action, Array, Observation, State


__all__ = ["Connect4Action", "Connect4Observation", "Connect4State"]

Cells = NDArray[np.int8]
Column = Annotated[int, Field(ge=0, lt=COLUMNS)]
_BOARD = Array(shape=(ROWS, COLUMNS), dtype="int8", low=-1, high=1)


class Connect4Action(Action):
    """A disc, dropped into a column.

    Attributes:
        column: From 0, the leftmost, to 6.
    """

    column: int = Field(ge=0, lt=COLUMNS, description="Column to drop a disc into, from the left")


class Connect4Observation(Observation):
    """The board, as everybody sees it.

    Attributes:
        board: Shape (6, 7), int8: 1 and -1 are the discs of the first and of the second player, 0
            is empty. Row 0 is the top.
        legal_actions: Columns that have room; none when the game is over. In Gymnasium a
            ``MultiBinary(7)``: the mask of legal actions.
    """

    board: Annotated[Cells, _BOARD] = Field(
        default_factory=lambda: np.zeros((ROWS, COLUMNS), np.int8),
        description="1 and -1: discs of the first and second player; 0: empty; row 0 is the top",
    )
    legal_actions: frozenset[Column] = Field(
        default=frozenset(), description="Columns that have room"
    )


class Connect4State(State):
    """The board, and whose turn it is.

    Attributes:
        board: As in `Connect4Observation`, as lists.
        next_player: 1 or -1.
    """

    board: list[list[int]] = Field(
        default_factory=lambda: [[0] * COLUMNS for _ in range(ROWS)],
        description="Rows of the board",
    )
    next_player: int = Field(default=1, description="1 or -1")
