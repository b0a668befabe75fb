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
        said: All moves, by all players; at last the one that the game did not hear, where it was
            over before the agent had a move.
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
        self._moved = False  # the agent has; only then it is told of an end
        self._taken = True
        self._broken = ""
        self._breaker = -1
        self.game.start(self.players, seed)
        self._mover = self.observer

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

    @property
    def over(self) -> bool:
        """It goes on no more, whether the agent was told or not."""
        return self.ended or self.cut

    def move(self, message: str, rng: np.random.Generator) -> None:
        """Make a move of the agent, and those of the others until it is the agent's turn again.

        Where the others ended the game before the agent had a move, its first one is not made: a
        reset has no reward and no end, so that it is the step that brings both.

        Raises:
            ResetNeededError: The match is over.
        """
        if self.over:
            self._pass(message)
            return
        self._speak(message)
        self.let_others_move(rng)

    def _pass(self, message: str) -> None:
        """Take a move of the agent to the end of a match without having it made.

        Raises:
            ResetNeededError: The agent was told of the end.
        """
        if self._moved:
            raise ResetNeededError("The game is over.", hint="Call reset() first.")
        self._moved = True
        self.said.append(message)

    def let_others_move(self, rng: np.random.Generator) -> None:
        """Have opponents move whose turn it is."""
        while self.game.current != self.observer and not self.over:
            self._speak(random_move(self.game, rng))

    def _speak(self, message: str) -> None:
        mover, taken = self.game.current, False
        try:
            taken = self.game.say(message)
        except Exception as error:  # a game that is not prepared for such a text
            self._broken = f"The game broke off: {type(error).__name__}: {error}"[:500]
            self._breaker = mover
        self.said.append(message)
        if self._seat in (None, mover):
            self._turns += 1
            self._moved = True
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
            if self.over:
                self.game.hear(self.observer)
                try:
                    self._pass(message)
                except ResetNeededError:
                    raise ValueError("a move comes after the end") from None
            else:
                self.game.hear(self.game.current)
                self._speak(message)
        return "\n".join(message.content for message in self.game.hear(self.observer))

    def outcome(self) -> dict[str, Any]:
        """Return what an observation says of the last move of the agent: reward, end, info."""
        over = self.over and self._moved
        info: dict[str, Any] = {"turn": self.game.turn, "invalid": not self._taken}
        rewards = self._broken_rewards() if self._broken else self.game.rewards
        if over:
            info["rewards"] = {str(player): reward for player, reward in rewards.items()}
            info["reason"] = self._broken or self.game.reason(self._mover)
        return {
            "reward": rewards.get(self._mover, 0.0) if over and self.ended else 0.0,
            "done": over,
            "truncated": over and self.cut,
            "metadata": info,
        }

    def _broken_rewards(self) -> dict[int, float]:
        """Return the rewards of a game that broke off: its text has lost the game for a player.

        As with TextArena's illegal moves, the other one of two has won.
        """
        others = 1.0 if self.players == 2 else 0.0
        return {
            player: -1.0 if player == self._breaker else others for player in range(self.players)
        }
