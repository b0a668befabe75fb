"""What goes in and out of a game of OpenSpiel.

`OpenSpielAction`, `OpenSpielObservation` and `OpenSpielState` have the fields of OpenEnv and fit
every game: clients use them. A server needs to know sizes, so `action_model` and
`observation_model` make the models of one game, of which the spaces are derived.
"""

# No `from __future__ import annotations`: Pydantic needs the annotations themselves.

import functools
import string
from typing import Annotated, Any, Literal

import numpy as np
from gymnasium.spaces import Text
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, PlainSerializer, create_model

from openenv_gym.models import Action, Array, Observation, State


__all__ = [
    "MAX_MESSAGE_LENGTH",
    "MAX_PROMPT_LENGTH",
    "PROMPT_CHARACTERS",
    "OpenSpielAction",
    "OpenSpielObservation",
    "OpenSpielState",
    "TextAction",
    "TextObservation",
    "action_model",
    "observation_model",
]

TERMINAL_PLAYER = -4
"""Who is to move when a game is over, as OpenSpiel numbers it."""

NO_ACTION = -1
"""The opponents have not moved; null in JSON, as OpenEnv has it."""

MAX_MESSAGE_LENGTH = 16_384
"""Longest answer of a language model, in characters."""

MAX_PROMPT_LENGTH = 16_384
"""Longest prompt, in characters."""

# What OpenSpiel's games draw with beside ASCII: boxes, an arrow, suits and playing cards.
_DRAWN = {*map(chr, range(0x2500, 0x2580)), *"←♠♣♥♦", *map(chr, range(0x1F0A0, 0x1F100))}

PROMPT_CHARACTERS = "".join(sorted({*string.printable, *_DRAWN}))
"""Characters of a prompt."""

# And what language models write: letters with accents, dashes, quotation marks, bullets.
_WRITTEN = {*map(chr, range(0xA0, 0x180)), *map(chr, range(0x2010, 0x2060))}

MESSAGE_CHARACTERS = "".join(sorted({*PROMPT_CHARACTERS, *_WRITTEN}))
"""Characters of an answer, as far as a space can name them; the model itself takes any."""

_MAX_MASK = 4096  # the largest set that has a space
_LARGEST = float(np.finfo(np.float32).max)

Phase = Literal["initial", "playing", "terminal"]


def _as_list(value: Any) -> Any:
    # The binary protocol brings what the server has: an array, a set.
    if isinstance(value, np.ndarray):
        return value.tolist()
    return sorted(value) if isinstance(value, (set, frozenset)) else value


def _as_optional(value: Any) -> Any:
    return None if type(value) is int and value == NO_ACTION else value


def _as_number(value: Any) -> Any:
    return NO_ACTION if value is None else value


class OpenSpielAction(Action):
    """An action, as OpenSpiel numbers those of the game.

    Attributes:
        action_id: The number.
        game_name: Sent by clients of OpenEnv; the server goes by its own options.
        game_params: Likewise.
    """

    action_id: int = Field(ge=0, description="Number of the action in the game")
    game_name: str = "catch"
    game_params: dict[str, Any] = Field(default_factory=dict)


class OpenSpielObservation(Observation):
    """What a player knows of the game.

    Attributes:
        info_state: OpenSpiel's information-state tensor, or its observation tensor for a game
            that has no other; flat.
        legal_actions: Numbers of the actions that may be taken, in order; none at the end.
        game_phase: ``"initial"`` after a reset, ``"terminal"`` at the end.
        current_player_id: Who is to move; -4 at the end.
        opponent_last_action: The last action of another player; None if there was none, and always
            in games of hidden information.
    """

    info_state: Annotated[list[float], BeforeValidator(_as_list)]
    legal_actions: Annotated[list[int], BeforeValidator(_as_list)]
    game_phase: Phase = "playing"
    current_player_id: int = 0
    opponent_last_action: Annotated[int | None, BeforeValidator(_as_optional)] = None


class OpenSpielState(State):
    """What is being played, and how.

    Attributes:
        game_name: OpenSpiel's name of the game.
        agent_player: Number of the player that the agent is.
        opponent_policy: What the other players do.
        game_params: Parameters of the game that are not its defaults.
        num_players: How many players there are.
    """

    game_name: str = "catch"
    agent_player: int = 0
    opponent_policy: str = "random"
    game_params: dict[str, Any] = Field(default_factory=dict)
    num_players: int = 1


class TextAction(Action):
    """The answer of a language model.

    Attributes:
        message: Text that names an action. What is named last counts.
    """

    message: Annotated[str, Text(MAX_MESSAGE_LENGTH, min_length=0, charset=MESSAGE_CHARACTERS)] = (
        Field(max_length=MAX_MESSAGE_LENGTH, description="Text that names an action")
    )


class TextObservation(Observation):
    """A prompt for a language model.

    Attributes:
        prompt: What the player knows of the game, and what may be done.
    """

    prompt: Annotated[str, Text(MAX_PROMPT_LENGTH, min_length=0, charset=PROMPT_CHARACTERS)] = (
        Field(max_length=MAX_PROMPT_LENGTH, description="What there is to know, and to do")
    )


# Cached, so that all sessions of a game share one class: making a model takes milliseconds.
@functools.lru_cache(maxsize=256)
def action_model(n_actions: int) -> type[Action]:
    """Return the action model of a game with `n_actions` actions: ``Discrete(n_actions)``."""
    text = OpenSpielAction.model_fields["action_id"].description
    return create_model(
        "OpenSpielAction",
        __base__=Action,
        __module__=__name__,
        __doc__="An action, as OpenSpiel numbers those of the game.",
        action_id=(int, Field(ge=0, lt=n_actions, description=text)),
    )


@functools.lru_cache(maxsize=256)
def observation_model(size: int, n_actions: int, n_players: int) -> type[OpenSpielObservation]:
    """Return the observation model of a game.

    Args:
        size: Numbers in its tensor.
        n_actions: How many actions it has. Those that are legal are a ``MultiBinary`` of that
            length, or for more than 4,096 a ``Sequence``.
        n_players: How many players it has.
    """
    number = Annotated[int, Field(ge=0, lt=n_actions)]
    # Bounds without infinities, of which Gymnasium's checker would warn.
    tensor = Array(shape=(size,), dtype="float32", low=-_LARGEST, high=_LARGEST)
    legal: Any = list[number]
    if n_actions <= _MAX_MASK:
        in_order = PlainSerializer(sorted, return_type=list[int])
        legal = Annotated[set[number], in_order]
    null = PlainSerializer(_as_optional, return_type=int | None)
    fields: dict[str, Any] = {
        "info_state": (
            Annotated[NDArray[np.float32], tensor],
            Field(description="What the player knows, as a tensor"),
        ),
        "legal_actions": (legal, Field(description="Actions that may be taken")),
        "game_phase": (Phase, Field(description="Where the game is")),
        "current_player_id": (
            int,
            Field(ge=TERMINAL_PLAYER, lt=n_players, description="Who is to move; -4 at the end"),
        ),
        "opponent_last_action": (
            Annotated[int, BeforeValidator(_as_number), null],
            Field(ge=NO_ACTION, lt=n_actions, description="Last action of another player"),
        ),
    }
    return create_model(
        "OpenSpielObservation",
        __base__=OpenSpielObservation,
        __module__=__name__,
        __doc__=OpenSpielObservation.__doc__,
        **fields,
    )
