"""What goes in and out of the template environment."""

from typing import Literal

from openenv_gym import Action, Observation
from pydantic import Field


__all__ = ["MAX_SIZE", "TemplateAction", "TemplateObservation"]

MAX_SIZE = 100
"""Most places that there can be."""


class TemplateAction(Action):
    """A step along the line.

    Attributes:
        move: Where to.
    """

    move: Literal["left", "right"]


class TemplateObservation(Observation):
    """Where the walker and its goal are.

    Attributes:
        position: Place of the walker, from 0.
        goal: Place of the goal, from 0.
    """

    position: int = Field(ge=0, lt=MAX_SIZE)
    goal: int = Field(ge=0, lt=MAX_SIZE)
