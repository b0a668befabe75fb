"""Functions that read samples of one space, made once and called on every step.

Each raises `InvalidActionError` for what does not lie in the space; what the common samples need
is settled when the function is made, the rest is left to `openenv_gym.spaces.actions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces

from openenv_gym.spaces.actions import (
    check_action,
    check_discrete,
    read_array,
    read_box,
    refusal,
    show_sample,
)
from openenv_gym.spaces.compat import make_box


if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    NumberSpace = spaces.Box | spaces.Discrete[Any] | spaces.MultiBinary | spaces.MultiDiscrete[Any]

__all__ = [
    "as_box",
    "box_reader",
    "discrete_reader",
    "sample_reader",
    "scalar_reader",
    "stack_reader",
]


def discrete_reader(space: spaces.Discrete[Any], name: str) -> Callable[[Any], int]:
    """Return a function that turns a sample of `space` into a Python integer.

    Args:
        space: The space.
        name: What errors call the sample.

    Returns:
        The function; it raises `InvalidActionError` for what does not lie in the space.
    """
    first, last, native = int(space.start), int(space.start) + int(space.n) - 1, space.dtype.type

    def read(sample: Any) -> int:
        kind = type(sample)
        if kind is native or kind is int:
            value = int(sample)
            if first <= value <= last:
                return value
        check_discrete(space, sample, name)
        return int(sample)

    return read


def box_reader(space: spaces.Box, name: str) -> Callable[[Any], NDArray[Any]]:
    """Return a function that turns a sample of `space` into an array of its dtype and shape.

    Args:
        space: The space.
        name: What errors call the sample.

    Returns:
        The function. It returns arrays of that dtype and shape uncopied, converts what fits
        without loss, and raises `InvalidActionError` for what does not lie in the space.
    """
    dtype, shape, low, high = space.dtype, space.shape, space.low, space.high
    # What no value of the dtype can violate is not checked; floats always can, by being NaN.
    free = False
    if dtype.kind != "f":
        limits = np.iinfo(np.dtype(dtype.str)) if dtype.kind in "iu" else None
        least, greatest = (limits.min, limits.max) if limits else (False, True)
        free = bool((low == least).all() and (high == greatest).all())

    def read(sample: Any) -> NDArray[Any]:
        exact = type(sample) is np.ndarray and sample.dtype == dtype and sample.shape == shape
        if exact and (free or ((sample >= low).all() and (sample <= high).all())):
            return sample  # type: ignore[no-any-return]
        return read_box(space, sample, name)

    return read


def scalar_reader(space: spaces.Box, name: str) -> Callable[[Any], Any]:
    """Return a function that turns a sample of a Box of shape () into a Python scalar.

    Args:
        space: The space.
        name: What errors call the sample.

    Returns:
        The function; it raises `InvalidActionError` for what does not lie in the space.
    """
    dtype, read_array = space.dtype, box_reader(space, name)
    low, high = space.low.item(), space.high.item()
    native, python = dtype.type, type(low)

    def read(sample: Any) -> Any:
        # Comparing Python scalars is ten times faster than comparing arrays.
        kind = type(sample)
        # A Box of integers and shape () samples NumPy scalars, one of floats 0-d arrays.
        if kind is native or (kind is np.ndarray and not sample.ndim and sample.dtype == dtype):
            value = sample.item()
        elif kind is python and dtype.itemsize == 8:  # narrower dtypes would round
            value = sample
        else:
            return read_array(sample).item()
        return value if low <= value <= high else read_array(sample).item()

    return read


def sample_reader(space: gymnasium.Space[Any], name: str) -> Callable[[Any], Any]:
    """Return a function that returns its argument where that lies in `space`.

    Args:
        space: The space.
        name: What errors call the sample.

    Returns:
        The function; it raises `InvalidActionError` for what does not lie in the space.
    """
    if isinstance(space, spaces.Box):
        return box_reader(space, name)

    def read(sample: Any) -> Any:
        check_action(space, sample, name)
        return sample

    return read


def stack_reader(element: spaces.Box, name: str) -> Callable[[Any], NDArray[Any]]:
    """Return a function that turns any number of samples of `element` into one array.

    Args:
        element: The space of one of them.
        name: What errors call them all.

    Returns:
        The function. It takes an array of that dtype and of shape ``(n, *element.shape)``
        uncopied, converts what fits without loss, and raises `InvalidActionError` for anything
        else.
    """
    dtype, inner, low, high = element.dtype, element.shape, element.low, element.high

    def read(sample: Any) -> NDArray[Any]:
        if isinstance(sample, np.ndarray):
            count = len(sample) if sample.ndim else 0
        elif isinstance(sample, (list, tuple)):
            count = len(sample)
        else:
            raise refusal(name, f"is {show_sample(sample)}, expected an array")
        shape = (count, *inner)
        exact = type(sample) is np.ndarray and sample.dtype == dtype and sample.shape == shape
        if exact and ((sample >= low).all() and (sample <= high).all()):
            return sample  # type: ignore[no-any-return]
        return read_array(sample, shape, dtype, low, high, name)

    return read


def as_box(space: NumberSpace) -> spaces.Box:
    """Return the Box that has the same samples (as arrays) as a space of numbers."""
    if isinstance(space, spaces.Box):
        return space
    if isinstance(space, spaces.MultiBinary):
        return spaces.Box(0, 1, space.shape, np.int8)
    if isinstance(space, spaces.Discrete):
        low, count = np.array(space.start, space.dtype), np.array(space.n, space.dtype)
    else:
        low, count = space.start, space.nvec
    return make_box(low, low + (count - 1), low.shape, np.dtype(space.dtype))
