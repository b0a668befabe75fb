"""What goes in and out of a text game. Names are OpenEnv's."""

# No `from __future__ import annotations`: Pydantic needs the annotations themselves.

from typing import Annotated, Any, Literal

from gymnasium.spaces import Text
from pydantic import BaseModel, Field

from openenv_gym.models import Action, Observation, State


__all__ = [
    "CATEGORIES",
    "CHARACTERS",
    "MAX_ACTION",
    "MAX_MESSAGE",
    "MAX_PLAYERS",
    "MAX_PROMPT",
    "TextArenaAction",
    "TextArenaMessage",
    "TextArenaObservation",
    "TextArenaState",
]

MAX_ACTION = 8_192
"""Longest message of a player, in characters."""

MAX_MESSAGE = 16_384
"""Longest message of the game, in characters."""

MAX_PROMPT = 32_768
"""Longest rules of a game, in characters."""

MAX_PLAYERS = 16
"""Most players of a game."""

CATEGORIES = (
    "PROMPT",
    "PLAYER_ACTION",
    "GAME_ACTION_DESCRIPTION",
    "GAME_MESSAGE",
    "GAME_BOARD",
    "GAME_ADMIN",
)
"""TextArena's kinds of messages."""

_BLOCKS = (
    (0x09, 0x0A),  # tab and line feed
    (0x20, 0x7E),
    (0xA0, 0x24F),  # Latin
    (0x370, 0x3FF),  # Greek
    (0x2010, 0x205E),  # punctuation
    (0x20A0, 0x20BF),  # currencies
    (0x2100, 0x27BF),  # arrows, mathematics, boxes, cards, chess
    (0x2B00, 0x2BFF),  # squares and stars
    (0xFE0F, 0xFE0F),  # what makes a symbol an emoji
    (0xFFFD, 0xFFFD),  # stands for all others
    (0x1F0A0, 0x1F0FF),  # playing cards
    (0x1F300, 0x1FAFF),  # emoji
)

CHARACTERS = "".join(chr(code) for first, last in _BLOCKS for code in range(first, last + 1))
"""What texts are made of: the spaces of texts have to name it."""


def _text(max_length: int) -> Text:
    return Text(max_length, min_length=0, charset=CHARACTERS)


class TextArenaMessage(BaseModel):
    """Something that was said.

    Attributes:
        sender_id: The player who said it; -1 for the game.
        content: What was said.
        category: What kind of message it is.
    """

    sender_id: int = Field(ge=-1, lt=MAX_PLAYERS)
    content: Annotated[str, _text(MAX_MESSAGE)]
    category: Literal[
        "PROMPT",
        "PLAYER_ACTION",
        "GAME_ACTION_DESCRIPTION",
        "GAME_MESSAGE",
        "GAME_BOARD",
        "GAME_ADMIN",
    ]


class TextArenaAction(Action):
    """What a player says; as a Gymnasium action, the text itself.

    Attributes:
        message: A move, in brackets: ``[4]``. The prompt says which there are.
    """

    message: Annotated[str, _text(MAX_ACTION)] = Field(
        max_length=MAX_ACTION, description="A move as the prompt asks for it, mostly in brackets"
    )


class TextArenaObservation(Observation):
    """What the player whose turn it is gets to read.

    Attributes:
        prompt: The rules; the same in each step, but for each player another.
        messages: What was said since this player's last turn.
        current_player_id: Whose turn it is.
        legal_players: The players of the game.
    """

    prompt: Annotated[str, _text(MAX_PROMPT)] = Field(description="The rules")
    messages: list[TextArenaMessage] = Field(
        default_factory=list, description="What was said since the player's last turn"
    )
    current_player_id: int = Field(default=0, ge=0, lt=MAX_PLAYERS, description="Whose turn it is")
    legal_players: list[Annotated[int, Field(ge=0, lt=MAX_PLAYERS)]] = Field(
        default_factory=list, max_length=MAX_PLAYERS, description="The players of the game"
    )


class TextArenaState(State):
    """What the game tells about itself; nothing that a player must not know.

    Attributes:
        env_id: Name of the game.
        num_players: Players.
        max_turns: Messages of the agent after which an episode is truncated.
        turn: Turns that were taken, by all players.
        last_reward: Reward of the last step.
        last_info: Info of the last step.
    """

    env_id: str = ""
    num_players: int = 1
    max_turns: int | None = None
    turn: int = 0
    last_reward: float = 0.0
    last_info: dict[str, Any] = Field(default_factory=dict)
