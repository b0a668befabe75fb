"""What callers pass to a vector environment, checked before anything is sent."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode

from openenv_gym.errors import InvalidOptionError


__all__ = [
    "check_observation_mode",
    "ranges",
    "read_autoreset_mode",
    "read_env_ids",
    "read_options",
    "read_seeds",
    "read_values",
    "wire_observation_mode",
]


def wire_observation_mode(observation_mode: str | Any) -> str:
    """Return what a server is told: with spaces of the caller's own, any bounds will do."""
    return observation_mode if isinstance(observation_mode, str) else "different"


def check_observation_mode(observation_mode: str | Any) -> None:
    """Refuse what is no observation mode, in the words of `AsyncVectorEnv`.

    Raises:
        TypeError: It is a tuple of something else than spaces.
        ValueError: It is something else.
    """
    if isinstance(observation_mode, tuple) and len(observation_mode) == 2:
        batched, single = observation_mode
        if not isinstance(batched, gymnasium.Space) or not isinstance(single, gymnasium.Space):
            raise TypeError(
                "Expected both elements of observation_mode to be Spaces, "
                f"got {type(batched)} and {type(single)}"
            )
    elif observation_mode not in ("same", "different"):
        raise ValueError(
            "Invalid `observation_mode`, expected: 'same' or 'different' or tuple of single and "
            f"batch observation space, actual got {observation_mode}"
        )


def read_autoreset_mode(mode: str | AutoresetMode) -> AutoresetMode:
    """Return the mode that a name stands for.

    Raises:
        InvalidOptionError: There is no such mode.
    """
    try:
        return mode if isinstance(mode, AutoresetMode) else AutoresetMode(mode)
    except ValueError:
        names = ", ".join(repr(each.value) for each in AutoresetMode)
        raise InvalidOptionError(
            f"autoreset_mode={mode!r:.60}: expected one of {names}.", field="autoreset_mode"
        ) from None


def read_seeds(seed: Any, num_envs: int) -> list[int | None] | None:
    """Return a seed for each sub-environment, or None where none is seeded.

    Args:
        seed: None; an integer of Python's or NumPy's (sub-environment i gets ``seed + i``); or a
            list, tuple, range or array with an integer for each (in a list or tuple also None).
        num_envs: Number of sub-environments.

    Raises:
        TypeError: It is something else, or holds something else.
        ValueError: There are more or fewer seeds than sub-environments.
    """
    if seed is None:
        return None
    if isinstance(seed, np.ndarray):
        if seed.dtype.kind not in "iu":
            raise TypeError(f"Expected seeds to be integers, got an array of {seed.dtype}.")
        seed = seed.tolist()
    if not isinstance(seed, (list, tuple, range)):
        first = _integer(seed, "seed")
        return [first + index for index in range(num_envs)]
    if len(seed) != num_envs:
        raise ValueError(
            "If seeds are passed as a list the length must match "
            f"num_envs={num_envs} but got length={len(seed)}."
        )
    return [
        None if each is None else _integer(each, f"seed[{index}]")
        for index, each in enumerate(seed)
    ]


def read_options(
    options: dict[str, Any] | None, num_envs: int
) -> tuple[dict[str, Any] | None, npt.NDArray[np.bool_] | None]:
    """Return the options of a reset without ``reset_mask``, and the mask.

    The caller's dictionary stays as it is: wrappers around us read the mask, too.

    Raises:
        TypeError: The mask is no array of truth values.
        ValueError: It has the wrong shape, or chooses nothing.
    """
    if options is None or "reset_mask" not in options:
        return options, None
    mask = options["reset_mask"]
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"`options['reset_mask']` must be a numpy array, got {type(mask)}")
    if mask.shape != (num_envs,):
        raise ValueError(
            f"`options['reset_mask']` must have shape `({num_envs},)`, got {mask.shape}"
        )
    if mask.dtype != np.bool_:
        raise TypeError(f"`options['reset_mask']` must have `dtype=np.bool_`, got {mask.dtype}")
    if not np.any(mask):
        raise ValueError(
            "`options['reset_mask']` must contain a boolean array with at least one True value, "
            f"got reset_mask={mask}"
        )
    return {key: value for key, value in options.items() if key != "reset_mask"}, mask


def read_values(values: Any, num_envs: int) -> list[Any]:
    """Return a value for each sub-environment: those of a list or tuple, or the same for all.

    Raises:
        ValueError: There are more or fewer than sub-environments.
    """
    if not isinstance(values, (list, tuple)):
        return [values] * num_envs
    if len(values) != num_envs:
        raise ValueError(
            "Values must be a list or tuple with length equal to the number of environments. "
            f"Got `{len(values)}` values for {num_envs} environments."
        )
    return list(values)


def read_env_ids(env_ids: Any, num_envs: int) -> npt.NDArray[np.int64]:
    """Return numbers of sub-environments; all of them for None.

    Raises:
        InvalidOptionError: They are no numbers of sub-environments, or one occurs twice.
    """
    if env_ids is None:
        return np.arange(num_envs)
    ids = np.asarray(env_ids)
    if ids.ndim != 1 or ids.size == 0 or ids.dtype.kind not in "iu":
        raise InvalidOptionError(
            f"env_ids={env_ids!r:.80}: expected a list of at least one integer.", field="env_ids"
        )
    if ids.min() < 0 or ids.max() >= num_envs or len(set(ids.tolist())) < len(ids):
        raise InvalidOptionError(
            f"env_ids={ids.tolist()!r:.80}: expected numbers from 0 to {num_envs - 1}, each once.",
            field="env_ids",
        )
    return ids.astype(np.int64)


def ranges(indices: Sequence[int]) -> str:
    """Return numbers in words: ``4 to 7``, ``0, 2``."""
    numbers = sorted(indices)
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))


def _integer(value: Any, name: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"Expected {name} to be an integer, a list of integers or None, "
            f"got {value!r:.60} ({type(value).__name__})."
        ) from None
