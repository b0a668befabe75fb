"""What games save: counters of turns, and how the game got to where it is."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from openenv_gym.server import SavedState
from openspiel_env.models import NO_ACTION


__all__ = ["SavedDeck", "SavedHands", "SavedMatch", "SavedTurns"]

_Count = Annotated[int, Field(ge=0, le=(1 << 63) - 1)]
_Hand = Annotated[list[Annotated[int, Field(ge=1, le=10)]], Field(min_length=1, max_length=32)]
_Gained = Annotated[float, Field(allow_inf_nan=False)]


class SavedTurns(SavedState):
    """What every game here saves.

    Attributes:
        moves: Actions of the agent in this episode.
        running: The episode goes on.
        forfeited: The agent has lost by an illegal action.
        note: What it was told about the last one.
    """

    moves: _Count
    running: bool
    forfeited: bool
    note: str = Field(max_length=256)


class SavedMatch(SavedTurns):
    """A game of OpenSpiel.

    Attributes:
        history: All actions from its beginning, those of chance among them.
        player: Whose view is shown.
        opponent_action: Last action of another player that the agent was shown, or `NO_ACTION`.
    """

    history: list[_Count] = Field(max_length=1 << 20)
    player: _Count
    opponent_action: int = Field(ge=NO_ACTION, le=(1 << 63) - 1)


class SavedDeck(SavedMatch):
    """OpenSpiel's blackjack.

    Attributes:
        gained: Sum of the rewards.
    """

    gained: _Gained


class SavedHands(SavedTurns):
    """Gymnasium's blackjack.

    Attributes:
        player: The player's cards, 1 for an ace.
        dealer: The dealer's, all of them.
        over: The game is over.
        gained: Sum of the rewards.
    """

    player: _Hand
    dealer: _Hand
    over: bool
    gained: _Gained
