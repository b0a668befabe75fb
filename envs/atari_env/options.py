"""Keyword arguments of ``gymnasium.make("openenv/Atari-v0", ...)``, with defaults and checks.

Two sets: `AtariOptions` for the console as it is, with names and defaults of ale-py's ``AtariEnv``
as ``ALE/<Game>-v5`` registers it; `PreprocessOptions` for ``preprocess=True``, with names and
defaults of ale-py's ``AtariVectorEnv``.
"""

# No `from __future__ import annotations`: Pydantic needs the annotations themselves.

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from openenv_gym.errors import InvalidOptionError


__all__ = ["AtariOptions", "PreprocessOptions", "parse_options"]

OptionsT = TypeVar("OptionsT", bound="_Options")

_INT_MAX = 2**31 - 1  # of the emulator's own numbers
_MOST_FRAMES = 10_000
"""Of one step, almost three minutes of play: nothing can stop the emulator meanwhile."""

VECTOR_ONLY = frozenset({"autoreset_mode", "batch_size", "num_threads", "thread_affinity_offset"})
"""Options of ``AtariVectorEnv`` that say how to run many games, which one game has no use for."""


def _check_frameskip(value: Any) -> Any:
    # JSON has no tuples: a pair that crossed the wire or a spec may arrive as a list.
    if isinstance(value, list):
        value = tuple(value)
    if type(value) is int and 0 < value <= _MOST_FRAMES:
        return value
    if (
        isinstance(value, tuple)
        and len(value) == 2
        and all(type(limit) is int for limit in value)
        and 0 < value[0] < value[1] <= _MOST_FRAMES
    ):
        return value
    raise ValueError(
        f"expected a positive integer up to {_MOST_FRAMES}, or two of them, the first below the "
        "second (a step then takes a number of frames drawn from the first up to, not including, "
        "the second)"
    )


class _Options(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    full_action_space: bool = Field(
        default=False, description="all 18 actions instead of those that the game tells apart"
    )
    continuous: bool = Field(
        default=False, description="actions are radius, angle and button instead of a number"
    )
    continuous_action_threshold: float = Field(
        default=0.5, description="from which deflection on a direction or the button counts"
    )


class AtariOptions(_Options):
    """Options without preprocessing: those of ``ALE/<Game>-v5``."""

    mode: int | None = Field(default=None, ge=0, le=_INT_MAX, description="mode of the game")
    difficulty: int | None = Field(
        default=None, ge=0, le=_INT_MAX, description="difficulty of the game"
    )
    obs_type: Literal["rgb", "grayscale", "ram"] = Field(
        default="rgb", description="screen in colour, screen in grey, or the console's memory"
    )
    frameskip: Annotated[int | tuple[int, int], BeforeValidator(_check_frameskip)] = Field(
        default=4, description="frames for each step, or a range to draw it from"
    )
    repeat_action_probability: float = Field(
        default=0.25, ge=0, le=1, description="how often a frame repeats the action before"
    )
    max_num_frames_per_episode: int | None = Field(
        default=108_000,
        ge=-_INT_MAX,
        le=_INT_MAX,
        description="truncate after this many frames; None or 0 for never",
    )
    sound_obs: bool = Field(default=False, description="the observation holds the sound as well")


class PreprocessOptions(_Options):
    """Options with ``preprocess=True``: those of ale-py's ``AtariVectorEnv``."""

    max_num_frames_per_episode: int = Field(
        default=108_000, ge=1, le=_INT_MAX, description="truncate after this many frames"
    )
    repeat_action_probability: float = Field(
        default=0.0, ge=0, le=1, description="how often a frame repeats the action before"
    )
    img_height: int = Field(default=84, ge=1, le=1024, description="height of a scaled frame")
    img_width: int = Field(default=84, ge=1, le=1024, description="width of a scaled frame")
    grayscale: bool = Field(default=True, description="frames in grey instead of colour")
    stack_num: int = Field(default=4, ge=1, le=64, description="frames in an observation")
    frameskip: int = Field(default=4, ge=1, le=_MOST_FRAMES, description="frames for each step")
    maxpool: bool = Field(
        default=True, description="the brighter of a step's last two frames, pixel by pixel"
    )
    noop_max: int = Field(
        default=30,
        ge=0,
        le=_MOST_FRAMES,
        description="begin an episode with fewer than this many idle frames",
    )
    use_fire_reset: bool = Field(
        default=True, description="begin an episode with the button, where the game has one"
    )
    episodic_life: bool = Field(default=False, description="a lost life ends the episode")
    life_loss_info: bool = Field(
        default=False, description="a lost life is reported as `terminated`, and the game goes on"
    )
    reward_clipping: bool = Field(default=True, description="rewards are cut to -1, 0 or 1")


def parse_options(model: type[OptionsT], given: Mapping[str, Any]) -> OptionsT:
    """Check keyword arguments.

    Args:
        model: `AtariOptions` or `PreprocessOptions`.
        given: The arguments.

    Returns:
        All options, with defaults where none was given.

    Raises:
        InvalidOptionError: One is unknown or has a value that is not taken; ``field`` names it.
    """
    for name in given:
        if name not in model.model_fields:
            raise _unknown_option(model, name)
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        name = str(problem["loc"][0])
        what = str(problem["ctx"]["error"]) if problem["type"] == "value_error" else problem["msg"]
        raise InvalidOptionError(
            f"{name}={given[name]!r:.80}: {what[0].lower()}{what[1:]}.",
            field=name,
            hint=f"The option means: {model.model_fields[name].description}.",
        ) from None


def _unknown_option(model: type[_Options], name: str) -> InvalidOptionError:
    known = sorted(model.model_fields)
    if model is AtariOptions and name in PreprocessOptions.model_fields:
        message, hint = f"{name!r} is an option of preprocess=True only.", "Add preprocess=True."
    elif model is PreprocessOptions and name in AtariOptions.model_fields:
        message = f"{name!r} is not an option of preprocess=True."
        hint = "Leave it out, or leave out preprocess=True."
    elif name in VECTOR_ONLY:
        message, hint = f"{name!r} is an option of vector environments only.", "Leave it out."
    else:
        near = difflib.get_close_matches(name, known, n=1)
        message = f"Unknown option {name!r}; there are {', '.join(known)}."
        hint = f"Did you mean {near[0]!r}?" if near else "Leave it out."
    return InvalidOptionError(message, field=name, hint=hint, data={"options": known})
