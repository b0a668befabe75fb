"""What goes in and out of a maze. Names and meaning are OpenEnv's: a position is column, row."""

# No `from __future__ import annotations`: Pydantic needs the annotations themselves.

import functools
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from openenv_gym.models import Action, Observation, State


__all__ = [
    "ACTIONS",
    "MAX_SIZE",
    "MazeAction",
    "MazeObservation",
    "MazeState",
    "observation_model",
]

ACTIONS = ("UP", "DOWN", "LEFT", "RIGHT")
"""What the numbers of actions mean."""

MAX_SIZE = 64
"""Most rows, and most columns."""


def _position(size: int) -> Any:
    number = Annotated[int, Field(ge=0, lt=size)]
    return Annotated[list[number], Field(min_length=2, max_length=2)]


class MazeAction(Action):
    """A move; as a Gymnasium action, its number.

    Attributes:
        action: 0 up, 1 down, 2 left, 3 right.
    """

    action: int = Field(ge=0, lt=len(ACTIONS), description="0 up, 1 down, 2 left, 3 right")


class MazeObservation(Observation):
    """Where the agent is, and where it can go from there.

    Attributes:
        legal_actions: The moves that no wall is in the way of; none at an episode's end.
        current_position: Column and row, from 0 at the upper left.
        previous_position: Those before the last move; after a reset, the current ones.
    """

    legal_actions: list[Annotated[int, Field(ge=0, lt=len(ACTIONS))]] = Field(
        default_factory=list, max_length=len(ACTIONS), description="Moves that lead somewhere"
    )
    current_position: _position(MAX_SIZE) = Field(  # type: ignore[valid-type]
        default_factory=lambda: [0, 0], description="Column and row"
    )
    previous_position: _position(MAX_SIZE) = Field(  # type: ignore[valid-type]
        default_factory=lambda: [0, 0], description="Column and row before the last move"
    )


class MazeState(State):
    """What the maze tells about itself.

    Attributes:
        done: The episode is over.
        current_position: Column and row of the agent.
        exit_cell: Column and row of the exit.
        status: ``"win"`` at the exit, ``"lose"`` where too much was lost on the way.
    """

    done: bool = False
    current_position: list[int] = Field(default_factory=list)
    exit_cell: list[int] = Field(default_factory=list)
    status: Literal["playing", "win", "lose"] = "playing"


@functools.cache  # so that all sessions share one class: making a model takes milliseconds
def observation_model(size: int) -> type[MazeObservation]:
    """Return the model of observations of a maze with at most `size` rows and columns."""
    bounded = {
        name: (_position(size), Field(default_factory=lambda: [0, 0], description=text))
        for name in ("current_position", "previous_position")
        if (text := MazeObservation.model_fields[name].description)
    }
    return create_model(  # type: ignore[call-overload, no-any-return]  # fields known when it runs
        "MazeObservation",
        __base__=MazeObservation,
        __module__=__name__,
        __doc__=MazeObservation.__doc__,
        **bounded,
    )
