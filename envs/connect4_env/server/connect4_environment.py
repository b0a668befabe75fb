"""Connect Four for one agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from connect4_env.board import COLUMNS, ROWS, Board
from connect4_env.models import Connect4Action, Connect4Observation, Connect4State
from connect4_env.server.opponents import Opponent, minimax, play_at_random
from connect4_env.server.pictures import draw
from openenv_gym.errors import InvalidActionError, ResetNeededError
from openenv_gym.rubrics import Rubric, load_rubric
from openenv_gym.server import Environment, SavedState, check_choice, check_integer


__all__ = ["MAX_DEPTH", "Connect4Environment"]

MAX_DEPTH = 8
"""Deepest search; beyond it a move could take seconds."""

_SELF = "self"
_OPPONENTS = (_SELF, "random", "minimax")
_SIDES = {"first": 0, "second": 1}
_ILLEGAL = ("loss", "penalty", "refuse")
_MODES = ("ansi", "rgb_array")


class SavedGame(SavedState):
    """What `Connect4Environment.save_state` returns.

    Attributes:
        moves: Columns, in the order in which discs were dropped.
        agent: Whose part the agent has.
        over: The episode is over.
    """

    moves: list[Annotated[int, Field(ge=0, lt=COLUMNS)]] = Field(max_length=ROWS * COLUMNS)
    agent: int = Field(ge=0, le=1)
    over: bool


class Connect4Environment(Environment[Connect4Action, Connect4Observation, Connect4State]):
    """Drop discs; four of your own in a row, in any direction, win.

    The reward is 1 for a win, -1 for a loss and 0 otherwise.

    Args:
        opponent: ``"random"``, ``"minimax"``, or ``"self"``: the agent plays both sides, and the
            reward is that of whoever moved, as in OpenEnv.
        depth: Half-moves that ``"minimax"`` looks ahead, from 1 to 8.
        side: Which side the agent plays: ``"first"``, ``"second"``, or ``"random"``, drawn anew for
            each episode. Without effect for ``"self"``.
        illegal_move: What a full column does: ``"loss"`` ends the game with -1, as in OpenEnv;
            ``"penalty"`` gives -0.1, and the agent moves again; ``"refuse"`` raises
            `InvalidActionError`.
        rubric: A `Rubric`, or ``module:attribute`` of one, whose score takes the reward's place.
        render_mode: ``"ansi"``, ``"rgb_array"`` or None.

    Raises:
        InvalidOptionError: An option has a value that is not taken.
    """

    action_model = Connect4Action
    observation_model = Connect4Observation
    metadata: ClassVar[dict[str, Any]] = {"render_modes": list(_MODES), "render_fps": 2}

    def __init__(
        self,
        *,
        opponent: str = "random",
        depth: int = 4,
        side: str = "first",
        illegal_move: str = "loss",
        rubric: Rubric | str | None = None,
        render_mode: str | None = None,
    ) -> None:
        check_choice("opponent", opponent, _OPPONENTS)
        check_choice("side", side, (*_SIDES, "random"))
        check_choice("illegal_move", illegal_move, _ILLEGAL)
        check_choice("render_mode", render_mode, (*_MODES, None))
        check_integer("depth", depth, 1, MAX_DEPTH)
        self.render_mode = render_mode
        self.rubric = load_rubric(rubric)
        self._choose: Opponent | None = None
        if opponent != _SELF:
            self._choose = minimax(depth) if opponent == "minimax" else play_at_random
        self._side = side
        self._illegal_move = illegal_move
        self._board = Board()
        self._agent = 0
        self._over = True  # until the first reset

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> Connect4Observation:
        """Begin a game; where the agent plays second, the opponent has moved. There are no options.

        Raises:
            InvalidOptionError: There is an option.
        """
        self.check_reset_options(options)
        self.begin_episode(seed)
        self._board = Board()
        self._over = False
        if self._choose is not None:
            drawn = int(self.np_random.integers(2)) if self._side == "random" else 0
            self._agent = _SIDES.get(self._side, drawn)
            if self._agent == 1:
                self._board.play(self._choose(self._board, self.np_random))
        return self._observe(0.0)

    def step(self, action: Connect4Action) -> Connect4Observation:
        """Drop a disc; the opponent answers.

        Raises:
            ResetNeededError: The game is over, or none has begun.
            InvalidActionError: The column is full, and ``illegal_move`` is ``"refuse"``.
        """
        if self._over:
            raise ResetNeededError("The game is over.", hint="Call reset() first.")
        if action.column not in self._board.legal:
            return self._punish(action.column)
        self.count_step()
        self._board.play(action.column)
        if self._choose is None:
            return self._observe(float(self._board.winner is not None))
        if not self._board.over:
            self._board.play(self._choose(self._board, self.np_random))
        winner = self._board.winner
        return self._observe(0.0 if winner is None else 1.0 if winner == self._agent else -1.0)

    def _punish(self, column: int) -> Connect4Observation:
        if self._illegal_move == "refuse":
            raise InvalidActionError(
                f"Column {column} is full; there is room in {self._board.legal}.", field="column"
            )
        self.count_step()
        self._over = self._illegal_move == "loss"
        return self._observe(-1.0 if self._over else -0.1, illegal=True)

    def _observe(self, reward: float, *, illegal: bool = False) -> Connect4Observation:
        board = self._board
        self._over = self._over or board.over
        legal = [] if self._over else board.legal
        mask = np.zeros(COLUMNS, np.int8)
        mask[legal] = 1
        winner = board.winner
        return Connect4Observation(
            board=board.to_array(),
            legal_actions=frozenset(legal),
            reward=reward,
            done=self._over,
            metadata={
                "action_mask": mask,
                "next_player": self._next_player,
                "winner": 0 if winner is None else _sign(winner),
                "illegal": illegal,
            },
        )

    @property
    def _next_player(self) -> int:
        return _sign(self._board.player)

    @property
    def state(self) -> Connect4State:
        """The board and whose turn it is."""
        return Connect4State(
            episode_id=self._episode_id,
            step_count=self._step_count,
            board=self._board.to_array().tolist(),
            next_player=self._next_player,
        )

    def legal_actions(self) -> Sequence[Connect4Action]:
        """Return the columns that have room."""
        legal = [] if self._over else self._board.legal
        return [Connect4Action(column=column) for column in legal]

    def render(self) -> Any:
        """Return the board as text, or as an array of shape (192, 224, 3), uint8."""
        if self.render_mode == "rgb_array":
            return draw(self._board)
        return str(self._board) if self.render_mode == "ansi" else None

    def save_state(self) -> dict[str, Any]:
        """Return moves, counters and the generator: what the opponent does is saved as well."""
        return SavedGame.of(
            self,
            self._saved_options,
            moves=list(self._board.moves),
            agent=self._agent,
            over=self._over,
        )

    def restore_state(self, saved: Any) -> None:
        """Return to a state that `save_state` returned.

        Raises:
            InvalidOptionError: It is no such state.
        """
        state = SavedGame.read(saved, self._saved_options)
        board = Board()
        for column in state.moves:
            if column not in board.legal:
                raise state.refusal(f"column {column} has no room, or the game was over")
            board.play(column)
        if not state.over and (board.over or (self._choose and board.player != state.agent)):
            raise state.refusal("it is not the agent's turn")
        self._board, self._agent, self._over = board, state.agent, state.over
        state.apply(self)

    @property
    def _saved_options(self) -> dict[str, Any]:
        return {"opponent": self._choose is not None}


def _sign(player: int) -> int:
    """Return a player as OpenEnv's boards show it."""
    return 1 if player == 0 else -1
