"""What goes in and out of an Atari game.

The classes here describe Pong in its default form; `action_model` and `observation_model` make
the models of other games and options. One field each, so that the spaces derived from them are a
plain ``Discrete`` and a plain ``Box``, as in ale-py.
"""

# No `from __future__ import annotations`: Pydantic needs the annotations themselves.

import functools
import math
from typing import Annotated, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, create_model

from openenv_gym.models import Action, Array, Observation, State


__all__ = [
    "AtariAction",
    "AtariContinuousAction",
    "AtariObservation",
    "AtariSoundObservation",
    "AtariState",
    "action_model",
    "game_over_model",
    "observation_model",
]

ObservationT = TypeVar("ObservationT", bound=Observation)

LEGAL_ACTIONS = 18
"""Positions of a joystick with one button (ale-py's legal action set)."""

SOUND_SAMPLES = 512
"""Samples of sound in one frame."""

Bytes = NDArray[np.uint8]


class AtariAction(Action):
    """A position of the joystick, in the numbering of the game's own action set.

    Attributes:
        action_id: Index into ``get_action_meanings()``.
    """

    action_id: int = Field(ge=0, lt=LEGAL_ACTIONS, description="Index into the action meanings")


class AtariContinuousAction(Action):
    """A position of the joystick in polar coordinates, with the button.

    Attributes:
        joystick: Radius from 0 to 1, angle from -pi to pi, and the button from 0 to 1; the last
            two Cartesian coordinates and the button count where they exceed a threshold.
            Shape (3,), float32.
    """

    joystick: Annotated[
        NDArray[np.float32],
        Array(shape=(3,), dtype="float32", low=[0.0, -math.pi, 0.0], high=[1.0, math.pi, 1.0]),
    ] = Field(description="Radius, angle, button")


class AtariObservation(Observation):
    """The screen, or the console's memory.

    Attributes:
        screen: Shape (height, width, 3) for obs_type ``"rgb"``, (height, width) for
            ``"grayscale"``, (128,) for ``"ram"``; (stack, height, width) or
            (stack, height, width, 3) where preprocessed. uint8.
    """

    screen: Annotated[Bytes, Array(shape=(210, 160, 3), dtype="uint8")] = Field(
        description="The screen, or the console's memory"
    )


class AtariSoundObservation(Observation):
    """The screen or memory, with the sound of the last frame.

    Attributes:
        image: As `AtariObservation.screen`.
        sound: Shape (512,), uint8.
    """

    image: Annotated[Bytes, Array(shape=(210, 160, 3), dtype="uint8")] = Field(
        description="The screen, or the console's memory"
    )
    sound: Annotated[Bytes, Array(shape=(SOUND_SAMPLES,), dtype="uint8")] = Field(
        description="Sound of the last frame"
    )


class AtariState(State):
    """What is being played, and how. The names are OpenEnv's, but for the last two.

    Attributes:
        game_name: Name in snake case.
        obs_type: What the observation shows.
        full_action_space: Whether all 18 actions can be used.
        mode: Mode of the game; None for its default.
        difficulty: Difficulty of the game; None for its default.
        repeat_action_probability: How often a frame repeats the action before ("sticky actions").
        frameskip: Frames for each step, or a range of which each step draws one.
        lives: Lives left.
        preprocess: Whether frames are scaled and stacked.
    """

    game_name: str = "pong"
    obs_type: Literal["rgb", "grayscale", "ram"] = "rgb"
    full_action_space: bool = False
    mode: int | None = None
    difficulty: int | None = None
    repeat_action_probability: float = 0.25
    frameskip: int | tuple[int, int] = 4
    lives: int = Field(default=0, ge=0)
    preprocess: bool = False


# Cached, so that all sessions of a game share one class: making a model takes milliseconds.
@functools.cache
def action_model(n_actions: int) -> type[AtariAction]:
    """Return the action model of a game with `n_actions` actions."""
    text = AtariAction.model_fields["action_id"].description
    return create_model(
        "AtariAction",
        __base__=AtariAction,
        __module__=__name__,
        __doc__=AtariAction.__doc__,
        action_id=(int, Field(ge=0, lt=n_actions, description=text)),
    )


@functools.cache
def observation_model(
    shape: tuple[int, ...], *, sound: bool = False
) -> type[AtariObservation] | type[AtariSoundObservation]:
    """Return the observation model for screens (or memory) of a shape.

    Args:
        shape: Shape of the uint8 array.
        sound: Whether the observation holds the sound as well.
    """
    form = Array(shape=shape, dtype="uint8")
    text = AtariObservation.model_fields["screen"].description
    if sound:
        return create_model(
            "AtariSoundObservation",
            __base__=AtariSoundObservation,
            __module__=__name__,
            __doc__=AtariSoundObservation.__doc__,
            image=(Annotated[Bytes, form], Field(description=text)),
        )
    return create_model(
        "AtariObservation",
        __base__=AtariObservation,
        __module__=__name__,
        __doc__=AtariObservation.__doc__,
        screen=(Annotated[Bytes, form], Field(description=text)),
    )


@functools.cache
def game_over_model(model: type[ObservationT]) -> type[ObservationT]:
    """Return a model for the one step at which a game both ends and is cut off.

    `done` and `truncated` cannot tell that from a mere cut, but ALE does, and Gymnasium's
    `terminated` must say what ALE says.

    Args:
        model: What the game's other steps return.
    """

    class GameOver(model):  # type: ignore[valid-type, misc]  # a base known when this runs
        __doc__ = model.__doc__

        @property
        def terminated(self) -> bool:
            return True

    GameOver.__name__ = GameOver.__qualname__ = model.__name__
    return GameOver
