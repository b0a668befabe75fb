"""What goes in and out of the grid world. Names and meaning are OpenEnv's."""

# No `from __future__ import annotations`: Pydantic needs the annotations themselves.

import functools
from enum import Enum

from pydantic import Field, create_model

from openenv_gym.models import Action, Observation


__all__ = [
    "MAX_SIZE",
    "GridWorldAction",
    "GridWorldObservation",
    "MoveAction",
    "observation_model",
]

MAX_SIZE = 64
"""Most rows, and most columns."""


class MoveAction(str, Enum):
    """Where to go. ``x`` is the row and ``y`` the column, both counted from the upper left."""

    UP = "UP"
    DOWN = "DOWN"
    LEFT = "LEFT"
    RIGHT = "RIGHT"


class GridWorldAction(Action):
    """A move; as a Gymnasium action, its number in ``UP, DOWN, LEFT, RIGHT``.

    Attributes:
        action: UP decreases ``x``, DOWN increases it; LEFT decreases ``y``, RIGHT increases it.
    """

    action: MoveAction = Field(description="UP: x - 1, DOWN: x + 1, LEFT: y - 1, RIGHT: y + 1")


class GridWorldObservation(Observation):
    """Where the agent is.

    Attributes:
        x: The row, from 0.
        y: The column, from 0.
        message: What happened, for agents that read.
    """

    x: int = Field(ge=0, lt=MAX_SIZE, description="Row, from 0 at the top")
    y: int = Field(ge=0, lt=MAX_SIZE, description="Column, from 0 on the left")
    message: str = Field(default="", max_length=100, description="What happened")


@functools.cache  # so that all sessions share one class: making a model takes milliseconds
def observation_model(size: int) -> type[GridWorldObservation]:
    """Return the model of observations of a grid with `size` rows and columns."""
    bounded = {
        name: (int, Field(ge=0, lt=size, description=field.description))
        for name, field in GridWorldObservation.model_fields.items()
        if name in ("x", "y")
    }
    return create_model(  # type: ignore[call-overload, no-any-return]  # fields known when it runs
        "GridWorldObservation",
        __base__=GridWorldObservation,
        __module__=__name__,
        __doc__=GridWorldObservation.__doc__,
        **bounded,
    )
