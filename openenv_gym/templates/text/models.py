"""What goes in and out of the template environment: text."""

from openenv_gym import Action, Observation
from pydantic import Field


__all__ = ["MAX_LENGTH", "TemplateAction", "TemplateObservation"]

MAX_LENGTH = 4096
"""Longest text, in characters."""


class TemplateAction(Action):
    """What a language model writes.

    Attributes:
        message: Its answer.
    """

    message: str = Field(max_length=MAX_LENGTH)


class TemplateObservation(Observation):
    """What it reads.

    Attributes:
        text: The task, or what is to be said of an answer.
    """

    text: str = Field(max_length=MAX_LENGTH)
