"""What goes in and out of the echo environment."""

from pydantic import Field

from openenv_gym.models import Action, Observation


__all__ = ["MAX_MESSAGE_LENGTH", "EchoAction", "EchoObservation"]

MAX_MESSAGE_LENGTH = 4096
"""Longest message, in characters."""


class EchoAction(Action):
    """A message to be echoed; as a Gymnasium action, the string itself.

    Attributes:
        message: The message. It may be empty, which earns nothing.
    """

    message: str = Field(max_length=MAX_MESSAGE_LENGTH, description="Message to be echoed")


class EchoObservation(Observation):
    """The message that came back.

    Attributes:
        echoed_message: The message; after a reset, a greeting.
        message_length: Number of its characters.
    """

    echoed_message: str = Field(
        max_length=MAX_MESSAGE_LENGTH, description="The message that came back"
    )
    message_length: int = Field(
        ge=0, le=MAX_MESSAGE_LENGTH, description="Number of characters in it"
    )
