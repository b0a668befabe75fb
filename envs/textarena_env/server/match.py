"""A game with its players: the agent, who has one seat or all of them, and opponents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from openenv_gym.errors import ResetNeededError
from textarena_env.server.game import Game
from textarena_env.server.opponent import random_move


__all__ = ["LONGEST", "Match"]

LONGEST = 10_000
"""Most moves of a match, by all players; then it is cut."""

_REFUSED = 10  # moves of opponents, one after the other; then they find none


class Match:
    """A match that has not begun.

    Args:
        game: The game.
        players: How many play it.
        seat: Which of them the agent is; None: all. The others move at random.
        max_turns: Moves of the agent after which the match is cut; None for never.

    Attributes:
        game: As above.
        players: As above.
        seed: What the game was begun with.
        said: All moves, by all players.
    """

    def __init__(self, game: Game, players: int, seat: int | None, max_turns: int | None) -> None:
        self.game = game
        self.players = players
        self._seat = seat
        self._max_turns = max_turns
        self.begin(0)

    def begin(self, seed: int) -> None:
        """Begin anew; `let_others_move` is due then."""
        self.seed = seed
        self.said: list[str] = []
        self._turns = 0
        self._refused = 0
        self._mover = 0
        self._taken = True
        self._broken = ""
        self.game.start(self.players, seed)

    @property
    def observer(self) -> int:
        """Who is told what happened."""
        return self.game.current if self._seat is None else self._seat

    @property
    def ended(self) -> bool:
        """The game came to its end, or broke."""
        return self.game.over or bool(self._broken)

    @property
    def cut(self) -> bool:
        """The game did not, but the match has."""
        stuck = self._refused >= _REFUSED
        long = self._turns == self._max_turns or len(self.said) >= LONGEST
        return (stuck or long) and not self.ended

    def move(self, message: str, rng: np.random.Generator) -> None:
        """Make a move of the agent, and those of the others until it is the agent's turn again.

        Raises:
            ResetNeededError: The match is over.
        """
        if self.ended or self.cut:
            raise ResetNeededError("The game is over.", hint="Call reset() first.")
        self._speak(message)
        self.let_others_move(rng)

    def let_others_move(self, rng: np.random.Generator) -> None:
        """Have opponents move whose turn it is."""
        while self.game.current != self.observer and not self.ended and not self.cut:
            self._speak(random_move(self.game, rng))

    def _speak(self, message: str) -> None:
        mover, taken = self.game.current, False
        try:
            taken = self.game.say(message)
        except Exception as error:  # a game that is not prepared for such a text
            self._broken = f"The game broke off: {type(error).__name__}: {error}"[:500]
        self.said.append(message)
        if self._seat in (None, mover):
            self._turns += 1
            self._mover, self._taken = mover, taken
        else:
            self._refused = 0 if taken else self._refused + 1

    def replay(self, seed: int, said: Sequence[str]) -> str:
        """Bring a match to where another one was; return what was said last there.

        Raises:
            ValueError: A move comes after the end.
        """
        self.begin(seed)
        for message in said:
            if self.ended:
                raise ValueError("a move comes after the end")
            self.game.hear(self.game.current)
            self._speak(message)
        return "\n".join(message.content for message in self.game.hear(self.observer))

    def outcome(self) -> dict[str, Any]:
        """Return what an observation says of the last move of the agent: reward, end, info."""
        over = self.ended or self.cut
        info: dict[str, Any] = {"turn": self.game.turn, "invalid": not self._taken}
        rewards = {self._mover: -1.0} if self._broken else self.game.rewards
        if over:
            info["rewards"] = {str(player): reward for player, reward in rewards.items()}
            info["reason"] = self._broken or self.game.reason(self._mover)
        return {
            "reward": rewards.get(self._mover, 0.0) if self.ended else 0.0,
            "done": over,
            "truncated": self.cut,
            "metadata": info,
        }
