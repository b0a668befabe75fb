"""What goes in and out of the snake's world. Names and numbers are OpenEnv's.

`SnakeAction` and `SnakeObservation` take what any world of snakes says; `action_model` and
`observation_model` make the models of one, whose spaces are known.
"""

# No `from __future__ import annotations`: Pydantic needs the annotations themselves.

import functools
from typing import Annotated, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from pydantic import Field, PlainValidator, create_model

from openenv_gym.models import Action, Array, Observation


__all__ = [
    "PLANES",
    "SnakeAction",
    "SnakeObservation",
    "action_model",
    "observation_model",
]

PLANES = 8
"""Planes of an observation."""

_LARGEST = 5  # of the numbers in a grid


def _array_of(dtype: DTypeLike) -> PlainValidator:
    def read(value: Any) -> NDArray[Any]:
        try:
            return np.asarray(value, dtype)
        except (OverflowError, TypeError) as error:
            raise ValueError(f"no array of {dtype}: {error}") from None

    return PlainValidator(read)


class SnakeAction(Action):
    """Where to go; as a Gymnasium action, its number.

    Attributes:
        action: Seen by the snake: 0 straight on, 1 left, 2 right. Seen from above: 0 straight on,
            1 left, 2 right, 3 down, 4 up.
    """

    action: int = Field(ge=0, lt=5, description="0 straight on, 1 left, 2 right, 3 down, 4 up")


class SnakeObservation(Observation):
    """What the world looks like.

    Attributes:
        grid: All cells: 0 empty, 1 fruit, 2 wall, 3 tail, 4 body, 5 head. Shape (height, width),
            uint8.
        observation: What the snake sees: the same, or the cells around its head, as planes of 0
            and 1: fruit, wall, tail, body and head of others (of which there are none), tail, body
            and head of its own. Shape (height, width, 8), or (2 * vision_range + 1,) twice and 8;
            float32.
        episode_score: Sum of the rewards of this episode.
        episode_steps: Steps of this episode.
        episode_fruits: Fruits eaten in it.
        episode_kills: Other snakes that it has killed: none.
        alive: It has run into nothing.
    """

    grid: Annotated[NDArray[np.uint8], _array_of(np.uint8)] = Field(
        description="0 empty, 1 fruit, 2 wall, 3 tail, 4 body, 5 head"
    )
    observation: Annotated[NDArray[np.float32], _array_of(np.float32)] = Field(
        description="Planes of 0 and 1"
    )
    episode_score: float = Field(default=0.0, ge=-1e300, le=1e300, description="Sum of rewards")
    episode_steps: int = Field(default=0, ge=0, description="Steps taken")
    episode_fruits: int = Field(default=0, ge=0, description="Fruits eaten")
    episode_kills: int = Field(default=0, ge=0, description="Other snakes killed")
    alive: bool = Field(default=True, description="It has run into nothing")


# Cached, so that all sessions share one class: making a model takes milliseconds.
@functools.cache
def action_model(n_actions: int) -> type[SnakeAction]:
    """Return the model of actions of which there are `n_actions`."""
    text = SnakeAction.model_fields["action"].description
    return create_model(
        "SnakeAction",
        __base__=SnakeAction,
        __module__=__name__,
        __doc__=SnakeAction.__doc__,
        action=(int, Field(ge=0, lt=n_actions, description=text)),
    )


@functools.cache
def observation_model(grid: tuple[int, int], seen: tuple[int, int]) -> type[SnakeObservation]:
    """Return the model of observations.

    Args:
        grid: Height and width of the world.
        seen: Height and width of what the snake sees.
    """
    cells = Array(grid, "uint8", 0, _LARGEST)
    planes = Array((*seen, PLANES), "float32", 0.0, 1.0)
    fields = SnakeObservation.model_fields
    return create_model(
        "SnakeObservation",
        __base__=SnakeObservation,
        __module__=__name__,
        __doc__=SnakeObservation.__doc__,
        grid=(Annotated[NDArray[np.uint8], cells], Field(description=fields["grid"].description)),
        observation=(
            Annotated[NDArray[np.float32], planes],
            Field(description=fields["observation"].description),
        ),
    )
