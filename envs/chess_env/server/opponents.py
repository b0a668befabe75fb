"""Who plays the other side: random moves, or an engine."""

from __future__ import annotations

from typing import Protocol

import chess
import chess.engine
import numpy as np

from chess_env.options import ChessOptions
from chess_env.server.engine import Engine, find_engine
from openenv_gym.errors import EnvironmentFailedError, InvalidOptionError


__all__ = ["EngineOpponent", "Opponent", "RandomOpponent", "make_opponent"]

_DEFAULT_NODES = 10_000
_FULL_SKILL = 20
_LINES = 4  # among which a handicapped engine chooses


class Opponent(Protocol):
    """Chooses the moves of one side."""

    def prepare(self) -> None:
        """Get ready for a game."""

    def choose(self, board: chess.Board, random: np.random.Generator) -> chess.Move:
        """Return a legal move.

        Args:
            board: The game so far; somebody is to move.
            random: Where chance comes from.
        """

    def close(self) -> None:
        """End what it holds."""


class RandomOpponent:
    """Every legal move is as likely as any other."""

    def prepare(self) -> None:
        """Nothing is needed."""

    def choose(self, board: chess.Board, random: np.random.Generator) -> chess.Move:
        """Return any legal move."""
        moves = list(board.legal_moves)
        return moves[int(random.integers(len(moves)))]

    def close(self) -> None:
        """Nothing is held."""


class EngineOpponent:
    """A UCI engine, as strong as the options say.

    With ``skill`` it searches for its four best moves and takes a lesser one the more often, the
    less skill it has. The rule is that of Stockfish's own "Skill Level" (its documentation, and
    ``Skill::pick_best`` in its ``search.cpp``), with values in hundredths of a pawn; but chance
    comes from the environment, where Stockfish's comes from the clock.

    Args:
        options: Which engine, and how strong.

    Raises:
        InvalidOptionError: There is no such engine here, it does not speak UCI, or cannot be told
            what it would have to be.
    """

    def __init__(self, options: ChessOptions) -> None:
        self._program = find_engine(options.opponent)
        self._options = options
        # Without a handicap there is nothing to choose.
        self._skill = None if options.skill == _FULL_SKILL else options.skill
        self._uci: dict[str, int | bool] = {}
        if options.elo is not None:
            self._uci = {"UCI_LimitStrength": True, "UCI_Elo": options.elo}
        limit = {"depth": options.depth, "nodes": options.nodes, "time": options.time_s}
        if all(value is None for value in limit.values()):
            if self._skill is None:
                limit["nodes"] = _DEFAULT_NODES
            else:
                limit["depth"] = self._skill + 1  # where Stockfish chooses, too
        self._limit = chess.engine.Limit(**limit)  # type: ignore[arg-type]  # each its own type
        self._engine: Engine | None = None
        try:
            engine = self._started()
        except EnvironmentFailedError as error:
            raise InvalidOptionError(
                f"opponent={options.opponent!r:.80}: expected a UCI engine. {error.message}",
                field="opponent",
            ) from error
        if self._skill is not None and not engine.knows("MultiPV"):
            self.close()
            raise InvalidOptionError(
                f"skill={self._skill}: expected an engine that names several moves (MultiPV), "
                f"which {self._program} does not.",
                field="skill",
                hint="Limit its depth, nodes or time instead.",
            )

    def prepare(self) -> None:
        """Start the engine, where none runs.

        Raises:
            EnvironmentFailedError: It does not start.
        """
        self._started()

    def choose(self, board: chess.Board, random: np.random.Generator) -> chess.Move:
        """Return the engine's move.

        Raises:
            EnvironmentFailedError: The engine failed; it is ended then.
        """
        engine = self._started()
        try:
            if self._skill is None:
                return engine.play(board, self._limit)
            ranked = engine.rank(board, self._limit, _LINES)
        except BaseException:  # an interrupt, too, would leave it thinking
            self.close()
            raise
        return _weakened(ranked, self._skill, random)

    def close(self) -> None:
        """End the engine."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _started(self) -> Engine:
        if self._engine is None or not self._engine.alive:
            self.close()
            self._engine = Engine(
                self._program,
                self._uci,
                timeout_s=self._options.engine_timeout_s,
                memory_mb=self._options.engine_memory_mb,
            )
        return self._engine


def make_opponent(options: ChessOptions) -> Opponent | None:
    """Return who plays the other side; None where the agent does.

    Args:
        options: The environment's.

    Raises:
        InvalidOptionError: As `EngineOpponent`.
    """
    if options.opponent == "self":
        return None
    return EngineOpponent(options) if options.has_engine else RandomOpponent()


def _weakened(
    ranked: list[tuple[chess.Move, int]], skill: int, random: np.random.Generator
) -> chess.Move:
    """Return one of the best moves: each gets a bonus that has two parts, and the best sum counts.

    The first part grows with what the move lacks to the best one, the second is drawn.
    """
    weakness = 120 - 2 * skill
    best, last = ranked[0][1], ranked[-1][1]
    spread = min(best - last, 100)
    sums = [
        value + (weakness * (best - value) + spread * int(random.integers(weakness))) // 128
        for _, value in ranked
    ]
    return ranked[int(np.argmax(sums))][0]
