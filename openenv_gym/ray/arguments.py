"""What a collection is asked for, checked before Ray is."""

from __future__ import annotations

from typing import Any

from openenv_gym import errors
from openenv_gym.providers.base import check_option
from openenv_gym.ray.playing import Amount


__all__ = ["read_amount", "read_count", "read_options", "read_seed"]

_FIXED = {
    "autoreset_mode": "NextStep",  # by which steps are told from resets
    "copy": True,  # observations are kept beyond the next step
    "observation_mode": "same",  # what all workers bring is one column
    "on_failure": "raise",  # a server that begins anew, unseeded, would not be noticed
}
"""Options of `gymnasium.make_vec` with which alone the result is right, and why."""


def read_amount(steps: Any, episodes: Any) -> Amount:
    """Return what each rollout is to have.

    Args:
        steps: So many steps; None: see `episodes`.
        episodes: So many episodes.

    Raises:
        InvalidOptionError: It is not one of both, or no number.
    """
    if (steps is None) == (episodes is None):
        raise errors.InvalidOptionError(
            f"steps={steps!r}, episodes={episodes!r}: expected one of them, for each rollout.",
            field="steps",
        )
    if steps is not None:
        return Amount(read_count("steps", steps), "steps")
    return Amount(read_count("episodes", episodes), "episodes")


def read_count(name: str, value: Any) -> int:
    """Return a number of things of which there must be some.

    Raises:
        InvalidOptionError: It is none.
    """
    check_option(name, value, "an integer of at least 1", type(value) is int and value >= 1)
    return int(value)


def read_seed(value: Any) -> int:
    """Return the seed of the first rollout.

    Raises:
        InvalidOptionError: It is none.
    """
    check_option("seed", value, "an integer of at least 0", type(value) is int and value >= 0)
    return int(value)


def read_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `gymnasium.make_vec` that are the caller's to choose.

    Raises:
        InvalidOptionError: Another one has a value with which the result would be wrong.
    """
    for name, fixed in _FIXED.items():
        value = getattr(options.get(name), "value", options.get(name, fixed))
        check_option(name, value, f"{fixed!r}, without which rollouts are wrong", value == fixed)
    return {name: value for name, value in options.items() if name not in _FIXED}
