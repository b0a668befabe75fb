"""One game being played: chance and opponents move by themselves until the agent has a choice."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Any

import numpy as np
import pyspiel

from openspiel_env.models import NO_ACTION
from openspiel_env.server.games import draws_by_itself, hides
from openspiel_env.server.opponents import Opponent
from openspiel_env.server.saving import SavedMatch


__all__ = ["Match"]

_MAX_DEALS = 1000


class Match:
    """A game with its present state.

    Attributes:
        game: The game.
        state: Where it is: the agent has a choice, or the game is over.
        player: Whose view is shown: the agent, or with nobody else to move, who moves or moved
            last.
        opponent_action: Last action of another player, or `NO_ACTION`. Always the latter in a game
            that hides something: OpenSpiel does not say which actions are hidden, and what a player
            may know of them is in its view.
    """

    def __init__(self, game: pyspiel.Game, agent: int, opponent: Opponent | None) -> None:
        """Prepare a match; `begin` starts it.

        Args:
            game: The game.
            agent: Number of the player that the agent is.
            opponent: Chooses for the others; None: the agent moves for all.
        """
        self.game = game
        self.state: pyspiel.State = game.new_initial_state()
        self.player = agent
        self.opponent_action = NO_ACTION
        self._agent = agent
        self._opponent = opponent
        self._hides = hides(game)

    def begin(self, rng: np.random.Generator) -> None:
        """Begin a new game.

        What is over before the agent had a choice (others folded, say) is dealt again.

        Raises:
            RuntimeError: That happens again and again.
        """
        for _ in range(_MAX_DEALS):
            if draws_by_itself(self.game):
                params = {**self.game.get_parameters(), "rng_seed": int(rng.integers(1 << 31))}
                self.game = pyspiel.load_game(self.game.get_type().short_name, params)
            self.state = self.game.new_initial_state()
            self.player, self.opponent_action = self._agent, NO_ACTION
            self._play_on(rng)
            if not self.state.is_terminal():
                return
        raise RuntimeError(
            f"{_MAX_DEALS} games of {self.game} were over before player {self._agent} had a choice."
        )

    def act(self, action: int, rng: np.random.Generator) -> float:
        """Take a legal action of `player`, and let chance and the others move.

        Returns:
            What the player gained by that.
        """
        mover, before = self.player, self.returns[self.player]
        self.state.apply_action(action)
        self._play_on(rng)
        return float(self.returns[mover] - before)

    def _play_on(self, rng: np.random.Generator) -> None:
        state = self.state
        while not state.is_terminal():
            if state.is_chance_node():
                state.apply_action(_draw(state.chance_outcomes(), rng))
                continue
            mover = state.current_player()
            if self._opponent is None:
                self.player = mover
                return
            if mover == self._agent:
                return
            action = self._opponent(state, rng)
            if not self._hides:
                self.opponent_action = action
            state.apply_action(action)

    @property
    def returns(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """What each player has gained so far. Shape (players,), float64."""
        return np.asarray(self.state.returns(), np.float64)

    def legal_actions(self) -> list[int]:
        """Return what `player` may do, in order; nothing when the game is over."""
        return [] if self.state.is_terminal() else list(self.state.legal_actions(self.player))

    def tensor(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Return what `player` knows. Shape (size,), float32."""
        if self.game.get_type().provides_information_state_tensor:
            return np.asarray(self.state.information_state_tensor(self.player), np.float32)
        return np.asarray(self.state.observation_tensor(self.player), np.float32)

    def fields(self) -> dict[str, Any]:
        """Return the fields of `SavedMatch`.

        Raises:
            NotImplementedError: OpenSpiel keeps the game's generator to itself.
        """
        if draws_by_itself(self.game):
            raise NotImplementedError(
                f"{self.game.get_type().short_name} has a generator that cannot be saved."
            )
        return {
            "history": list(self.state.history()),
            "player": self.player,
            "opponent_action": self.opponent_action,
        }

    def restore(self, saved: SavedMatch) -> None:
        """Return to where a match was: all its actions are taken again.

        OpenSpiel's own text of a state is not read, as its reader trusts what it gets.

        Raises:
            InvalidOptionError: No game goes like that.
        """
        if saved.opponent_action >= self.game.num_distinct_actions():
            raise saved.refusal(f"there is no action {saved.opponent_action}")
        players = range(self.game.num_players()) if self._opponent is None else (self._agent,)
        if saved.player not in players:
            raise saved.refusal(f"player {saved.player} is not the agent")
        state = self.game.new_initial_state()
        for number, action in enumerate(saved.history):
            if state.is_terminal() or action not in state.legal_actions():
                raise saved.refusal(f"action {number}, {action}, is not legal")
            state.apply_action(action)
        if state.is_terminal():
            if saved.running:
                raise saved.refusal("its game is over")
        elif state.current_player() != saved.player:
            raise saved.refusal(f"player {saved.player} is not to move")
        self.state, self.player = state, saved.player
        # States that were saved before such actions were hidden still have them.
        self.opponent_action = NO_ACTION if self._hides else saved.opponent_action


def _draw(outcomes: list[tuple[int, float]], rng: np.random.Generator) -> int:
    """Draw one of the outcomes of chance."""
    actions, probabilities = zip(*outcomes, strict=True)
    sums = list(accumulate(probabilities))
    # What the sums lack of 1 by rounding must not lead beyond the last outcome.
    return int(actions[min(bisect_right(sums, rng.random() * sums[-1]), len(actions) - 1)])
