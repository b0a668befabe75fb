"""Blackjack as it is dealt, by the rules of Gymnasium or of OpenSpiel."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from gymnasium.envs.toy_text.blackjack import BlackjackEnv

from openspiel_env.server.games import load_game
from openspiel_env.server.match import Match
from openspiel_env.server.saving import SavedDeck, SavedHands


__all__ = ["HIT", "NAMES", "STAND", "TABLES", "Hand", "Table"]

NAMES = ("hit", "stand")
HIT, STAND = 0, 1
"""What a player may do; the numbers are OpenSpiel's."""

_RANKS = {1: "ace", 11: "jack", 12: "queen", 13: "king"}
_LETTERS = {"A": 1, "T": 10, "J": 11, "Q": 12, "K": 13}


@dataclass(frozen=True)
class Hand:
    """Cards by rank: 1 for an ace, 11 to 13 for jack, queen and king.

    Attributes:
        ranks: The cards, in the order in which they came.
    """

    ranks: tuple[int, ...]

    @property
    def usable_ace(self) -> bool:
        """Whether an ace counts 11."""
        return 1 in self.ranks and self._hard <= 11

    @property
    def total(self) -> int:
        """What the cards are worth; above 21 the hand is bust."""
        return self._hard + (10 if self.usable_ace else 0)

    @property
    def _hard(self) -> int:
        return sum(min(rank, 10) for rank in self.ranks)

    def __str__(self) -> str:
        cards = ", ".join(_RANKS.get(rank, str(rank)) for rank in self.ranks)
        if len(self.ranks) == 1:  # the dealer's open card
            return cards
        ace = ", an ace counts 11" if self.usable_ace else ""
        return f"{cards} (total {self.total}{ace})"


class Table(Protocol):
    """A game of blackjack by somebody's rules.

    Attributes:
        saved_model: What is saved of it.
    """

    saved_model: type[Any]

    def deal(self, rng: np.random.Generator) -> None:
        """Begin a game; all its cards come from `rng`."""

    def play(self, action: int, rng: np.random.Generator) -> float:
        """Hit or stand, and return the reward; cards come from `rng`."""

    @property
    def over(self) -> bool:
        """Whether the game is over."""

    @property
    def player(self) -> Hand:
        """The player's cards."""

    @property
    def dealer(self) -> Hand:
        """The dealer's cards that are open."""

    def fields(self) -> dict[str, Any]:
        """Return the fields of `saved_model` that are the game's."""

    def restore(self, saved: Any) -> None:
        """Return to what was saved, a `saved_model`."""


class GymnasiumTable:
    """Gymnasium's ``Blackjack-v1``: an endless deck, and the dealer stands on 17."""

    saved_model = SavedHands

    def __init__(self) -> None:
        self._env = BlackjackEnv(sab=True)  # as Blackjack-v1 has it
        self.over = True

    def deal(self, rng: np.random.Generator) -> None:
        """Begin a game."""
        self._env.np_random = rng
        self._env.reset()
        self.over = False

    def play(self, action: int, rng: np.random.Generator) -> float:
        """Hit or stand; there, hitting is 1."""
        self._env.np_random = rng
        result = self._env.step(int(action == HIT))  # type: ignore[no-untyped-call]
        _, reward, self.over, _, _ = result
        return float(reward)

    @property
    def player(self) -> Hand:
        """The player's cards; tens stand for jack, queen and king as well."""
        return Hand(tuple(map(int, self._env.player)))

    @property
    def dealer(self) -> Hand:
        """The dealer's first card, and the others when the game is over."""
        cards = self._env.dealer if self.over else self._env.dealer[:1]
        return Hand(tuple(map(int, cards)))

    def fields(self) -> dict[str, Any]:
        """Return the cards."""
        cards = {"player": list(self.player.ranks), "dealer": list(map(int, self._env.dealer))}
        return {**cards, "over": self.over}

    def restore(self, saved: SavedHands) -> None:
        """Take cards that were saved.

        Raises:
            InvalidOptionError: The game is over, and the episode is not.
        """
        if saved.running and saved.over:
            raise saved.refusal("its game is over")
        self._env.player, self._env.dealer = saved.player, saved.dealer
        self.over = saved.over


class OpenSpielTable:
    """OpenSpiel's ``blackjack``: one deck of 52 cards, and the dealer stands on 17."""

    saved_model = SavedDeck
    _CARDS = re.compile(r"Cards: (.*)")

    def __init__(self) -> None:
        self._match = Match(load_game("blackjack"), 0, None)

    def deal(self, rng: np.random.Generator) -> None:
        """Begin a game."""
        self._match.begin(rng)

    def play(self, action: int, rng: np.random.Generator) -> float:
        """Hit or stand; the numbers are OpenSpiel's own."""
        return self._match.act(action, rng)

    @property
    def over(self) -> bool:
        """Whether the game is over."""
        return bool(self._match.state.is_terminal())

    @property
    def player(self) -> Hand:
        """The player's cards."""
        return self._hands()[0]

    @property
    def dealer(self) -> Hand:
        """The dealer's open cards."""
        return self._hands()[1]

    def _hands(self) -> list[Hand]:
        # "Player 0: Cards: D3 HK", then "Dealer: Cards: ?? C9": suit and rank, or hidden.
        lines = self._CARDS.findall(self._match.state.observation_string(0))
        return [
            Hand(tuple(_rank(card[1]) for card in line.split() if card != "??")) for line in lines
        ]

    def fields(self) -> dict[str, Any]:
        """Return how the game went."""
        return self._match.fields()

    def restore(self, saved: SavedDeck) -> None:
        """Play a game again that was saved.

        Raises:
            InvalidOptionError: No game goes like that.
        """
        self._match.restore(saved)


def _rank(letter: str) -> int:
    return _LETTERS.get(letter) or int(letter)


TABLES: dict[str, type[GymnasiumTable] | type[OpenSpielTable]] = {
    "gymnasium": GymnasiumTable,
    "openspiel": OpenSpielTable,
}
"""What deals, by the name of the rules."""
