"""The chess environment itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import chess
import numpy as np

from chess_env.models import (
    ChessAction,
    ChessIndexAction,
    ChessObservation,
    ChessPlanesObservation,
    ChessState,
)
from chess_env.options import StartOptions, parse_options, parse_start
from chess_env.prompts import draw_board, move_prompt
from chess_env.server.drawing import draw
from chess_env.server.game import Game
from chess_env.server.moves import action_mask, decode, encode
from chess_env.server.opponents import make_opponent
from chess_env.server.planes import draw_planes
from chess_env.server.saving import SavedGame
from chess_env.server.start import start_board
from openenv_gym.errors import ResetNeededError
from openenv_gym.models import CallToolAction, CallToolObservation
from openenv_gym.rubrics import Rubric, load_rubric
from openenv_gym.server import MCPEnvironment, check_choice, tool


__all__ = ["ILLEGAL_REWARD", "ChessEnvironment"]

ILLEGAL_REWARD = -0.1
"""Reward of an illegal move that does not lose the game."""

AnyAction = ChessAction | ChessIndexAction
AnyObservation = ChessObservation | ChessPlanesObservation


class ChessEnvironment(MCPEnvironment[AnyAction, AnyObservation, ChessState]):
    """A game of chess: against random moves, against an engine, or of both sides.

    The reward is 1 for a win, -1 for a loss, -0.1 for an illegal move, and 0 otherwise. Everything
    that is drawn comes from `np_random`.

    Args:
        rubric: What judges the steps instead: a rubric, or ``"module:attribute"``.
        render_mode: ``"ansi"``, ``"rgb_array"`` or None.
        **options: Those of `ChessOptions`.

    Raises:
        InvalidOptionError: An option that does not exist, or a value that is not taken.
    """

    action_model: type[AnyAction] = ChessAction
    observation_model: type[AnyObservation] = ChessObservation
    # Positions that are to be looked at: two a second.
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 2}
    observables = ("prompt",)
    # Tools play in the session's thread: an engine has a limit of its own.
    tool_timeout_s = None

    def __init__(
        self,
        *,
        rubric: Rubric | str | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        check_choice("render_mode", render_mode, ("ansi", "rgb_array", None))
        self.render_mode = render_mode
        self.rubric = load_rubric(rubric)
        self._options = parse_options(options)
        if self._options.action == "discrete":
            self.action_model = ChessIndexAction
        if self._options.observation == "planes":
            self.observation_model = ChessPlanesObservation
        self._begin(self._options, _no_chance())  # a position that cannot be played is refused now
        self._opponent = make_opponent(self._options)
        self._game: Game | None = None
        self._color: chess.Color | None = None  # whom the agent plays; None for both
        self._over = False  # the agent was told of the end
        self._reward: float | None = None

    # -- episodes -----------------------------------------------------------------------------

    def reset(
        self,
        *,
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
        fen: str | None = None,
        chess960: int | str | None = None,
        agent_color: str | None = None,
    ) -> AnyObservation:
        """Begin a game; where the agent is Black, the opponent has moved already.

        Args:
            seed: Seeds `np_random` when given.
            options: The next three, as Gymnasium has them.
            fen: Where this game begins, instead of where the environment's options say.
            chess960: Likewise.
            agent_color: Whom the agent plays in this game, likewise.

        Raises:
            EnvironmentFailedError: The engine failed.
            InvalidOptionError: One of these has a value that is not taken.
        """
        named = {"fen": fen, "chess960": chess960, "agent_color": agent_color}
        given = {name: value for name, value in named.items() if value is not None}
        start = parse_start(self._options, {**(options or {}), **given})
        self._begin(start, _no_chance())  # before anything has changed
        self.begin_episode(seed)
        self._game, self._over, self._reward = None, False, None
        if self._opponent is not None:
            self._opponent.prepare()
            self._color = self._draw_color(start)
        game = self._begin(start, self.np_random)
        reply = self._reply(game)
        self._game = game
        return self._observe(game, reply=reply)

    def act(self, action: AnyAction) -> AnyObservation:
        """Make a move, and have the opponent answer it.

        Raises:
            EnvironmentFailedError: The engine failed; only `reset` is possible then.
            ResetNeededError: There is no game, or it is over.
        """
        game = self._playing
        self.count_step()
        if isinstance(action, ChessIndexAction):
            return self._play(game, decode(action.action_id, game.board))
        return self._play(game, game.read(action.move))

    def _play(self, game: Game, move: chess.Move | None) -> AnyObservation:
        """Make a move of the agent, whether it is legal or not."""
        mover = game.board.turn if self._color is None else self._color
        made = reply = None
        illegal = False
        # Over already where the opponent's first move ended the game.
        if game.end is None:
            illegal = move not in game.legal
            if move is None or illegal:
                game.refuse(forfeit=self._options.illegal_move == "loss")
            else:
                game.push(move)
                made = move.uci()
                self._game = None  # an engine that fails leaves no half of a step behind
                reply = self._reply(game)
                self._game = game
        self._over = game.end is not None
        if illegal and not game.forfeited:
            self._reward = ILLEGAL_REWARD
        elif game.end is None or game.end.winner is None:
            self._reward = 0.0
        else:
            self._reward = 1.0 if game.end.winner == mover else -1.0
        return self._observe(game, move=made, reply=reply, illegal=illegal)

    def _begin(self, start: StartOptions, random: np.random.Generator) -> Game:
        """Return a game in which no move was made; `start_board` says what is refused."""
        board = start_board(start, random, claim_draws=self._options.claim_draws)
        return Game(board, **self._rules)

    def _reply(self, game: Game) -> str | None:
        """Have the opponent move, where it is to; return its move."""
        if self._opponent is None or game.end is not None or game.board.turn == self._color:
            return None
        move = self._opponent.choose(game.board, self.np_random)
        game.push(move)
        return move.uci()

    def _observe(
        self,
        game: Game,
        *,
        move: str | None = None,
        reply: str | None = None,
        illegal: bool = False,
    ) -> AnyObservation:
        """Return what the agent sees: the position, and what has just happened."""
        board, end = game.board, game.end
        fields: dict[str, Any] = {
            "fen": board.fen(),
            "is_check": board.is_check(),
            "result": end.result if end else None,
        }
        shows_planes = self._options.observation == "planes"
        if self._options.action == "uci" or not shows_planes:
            fields["legal_moves"] = [each.uci() for each in game.legal]
        info: dict[str, Any] = {
            "move": move,
            "opponent_move": reply,
            "illegal_move": illegal,
            "termination": end.reason if end else None,
            "fullmove_number": board.fullmove_number,
            "halfmove_clock": board.halfmove_clock,
        }
        if shows_planes:
            info |= fields
            fields = {"planes": draw_planes(game, self._player(game))}
        if self._options.action == "discrete":
            info["action_mask"] = action_mask(board, game.legal)
        # Nothing here needs to be validated: it is what python-chess says.
        return self.observation_model.model_construct(
            **fields,
            reward=self._reward,
            done=self._over,
            truncated=self._over and end is not None and end.truncated,
            metadata=info,
        )

    @property
    def _playing(self) -> Game:
        """The game, where it goes on."""
        if self._over:
            raise ResetNeededError("The game is over.", hint="Call reset() first.")
        return self._shown

    @property
    def _shown(self) -> Game:
        """The game, over or not."""
        if self._game is None:
            raise ResetNeededError("There is no game.", hint="Call reset() first.")
        return self._game

    @property
    def _rules(self) -> dict[str, Any]:
        return self._options.model_dump(include={"claim_draws", "max_moves"})

    def _player(self, game: Game) -> chess.Color:
        """Whose side the board is seen from."""
        return game.board.turn if self._color is None else self._color

    def _draw_color(self, start: StartOptions) -> chess.Color:
        if start.agent_color == "random":
            return bool(self.np_random.integers(2))
        return start.agent_color == "white"

    # -- tools --------------------------------------------------------------------------------

    @tool
    def legal_moves(self) -> list[str]:
        """List the legal moves in UCI notation, such as e2e4."""
        return [move.uci() for move in self._shown.legal]

    @tool
    def play_move(self, move: str) -> dict[str, Any]:
        """Make a move; the answer holds the opponent's move and the new position.

        Args:
            move: The move in UCI notation, such as e2e4, or e7e8q for a promotion.
        """
        game = self._playing
        told = self._play(game, game.read(move)).metadata
        names = ("illegal_move", "opponent_move", "termination")
        result = game.end.result if game.end else None
        return {"fen": game.board.fen(), "result": result, **{name: told[name] for name in names}}

    @tool
    def show_board(self) -> str:
        """Show the board, whose move it is, and the legal moves."""
        return self.prompt()

    def judge(self, action: CallToolAction, observation: CallToolObservation) -> None:
        """Give a move the reward that it has as an action, and end the episode where it does."""
        if action.tool_name == "play_move" and observation.error is None:
            end = self._shown.end
            observation.reward = self._reward
            observation.done = self._over
            observation.truncated = self._over and end is not None and end.truncated

    # -- what can be asked between steps --------------------------------------------------------

    def legal_actions(self) -> Sequence[Mapping[str, Any]]:
        """Return the legal moves as fields of actions; none after the end.

        Raises:
            ResetNeededError: There is no game.
        """
        game = self._shown
        if self._options.action == "discrete":
            return [{"action_id": encode(move, game.board.turn)} for move in game.legal]
        return [{"move": move.uci()} for move in game.legal]

    def prompt(self) -> str:
        """Return the position as text for a language model (`chess_env.prompts.move_prompt`).

        Raises:
            ResetNeededError: There is no game.
        """
        game = self._shown
        return move_prompt(game.board.fen(), [move.uci() for move in game.legal])

    @property
    def state(self) -> ChessState:
        """The game so far."""
        state = ChessState(
            episode_id=self._episode_id,
            step_count=self._step_count,
            opponent=self._options.opponent,
        )
        game = self._game
        if game is None:
            return state
        board, end = game.board, game.end
        return state.model_copy(
            update={
                "fen": board.fen(),
                "current_player": chess.COLOR_NAMES[board.turn],
                "move_history": [move.uci() for move in board.move_stack],
                "agent_color": None if self._color is None else chess.COLOR_NAMES[self._color],
                "start_fen": game.start_fen,
                "chess960": board.chess960,
                "result": end.result if end else None,
                "termination": end.reason if end else None,
            }
        )

    def render(self) -> Any:
        """Return the board: text, or a picture of shape (384, 384, 3), uint8."""
        if self.render_mode is None:
            return None
        game = self._shown
        if self.render_mode == "rgb_array":
            return draw(game.board, self._player(game))
        return f"{draw_board(game.board.fen())}\n"

    def close(self) -> None:
        """End the engine."""
        super().close()
        if self._opponent is not None:
            self._opponent.close()

    # -- saving -------------------------------------------------------------------------------

    def save_state(self) -> dict[str, Any]:
        """Return the game and the generator as plain data.

        An engine needs no saving: it forgets what it has found before each move.

        Raises:
            ResetNeededError: There is no game.
        """
        game = self._shown
        return SavedGame.of(
            self,
            self._saved_options,
            **SavedGame.fields_of(game),
            agent_color=self._color,
            over=self._over,
        )

    def restore_state(self, saved: Any) -> None:
        """Return to a state that `save_state` returned, here or in another process.

        The opponent may be another one, if there is one.

        Raises:
            InvalidOptionError: It is no such state.
        """
        state = SavedGame.read(saved, self._saved_options)
        if (state.agent_color is None) != (self._opponent is None):
            raise state.refusal(f"the agent plays {state.agent_color!r} there")
        game = state.game(**self._rules)
        self._game, self._color, self._over, self._reward = (
            game,
            state.agent_color,
            state.over,
            None,
        )
        state.apply(self)

    @property
    def _saved_options(self) -> dict[str, Any]:
        return {"opponent": self._opponent is not None}


def _no_chance() -> np.random.Generator:
    """Return a generator for what is only tried out."""
    return np.random.default_rng(0)
