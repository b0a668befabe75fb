"""Gymnasium's spaces built the same way under every version from 1.2.2 on.

What differs between those versions is known here and nowhere else: `Dict` takes ``sort_keys``
only from 1.4 on, and `Box` treats scalar bounds in several ways.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces


if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["make_box", "make_dict"]

_DICT_TAKES_SORT_KEYS = "sort_keys" in inspect.signature(spaces.Dict.__init__).parameters


def make_box(
    low: NDArray[Any],
    high: NDArray[Any],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    *,
    bounded_below: NDArray[np.bool_] | bool | None = None,
    bounded_above: NDArray[np.bool_] | bool | None = None,
) -> spaces.Box:
    """Make a Box from bounds that have its dtype.

    Args:
        low: Smallest values: one (shape ``()``), or an array of shape `shape`.
        high: Largest values, likewise.
        shape: Shape of the Box.
        dtype: Dtype of the Box.
        bounded_below: Where `low` is a bound to sample from, as opposed to the dtype's own limit
            standing for infinity (which an integer cannot express); None: where it is finite.
        bounded_above: The same for `high`.

    Returns:
        The Box. It shares no memory with the arguments.

    Raises:
        TypeError, ValueError: As `gymnasium.spaces.Box` does.
    """
    # Whole arrays: scalars take another path inside Box, which differs between the versions and
    # refuses booleans. `order="C"` because a broadcast array has no layout to keep.
    space = spaces.Box(
        np.array(np.broadcast_to(low, shape), order="C"),
        np.array(np.broadcast_to(high, shape), order="C"),
        shape,
        dtype,
    )
    for name, bounded in (("bounded_below", bounded_below), ("bounded_above", bounded_above)):
        value = getattr(space, name) if bounded is None else bounded
        # Box itself leaves a scalar there when its shape is ().
        setattr(space, name, np.array(np.broadcast_to(value, shape), dtype=np.bool_, order="C"))
    return space


def make_dict(items: Sequence[tuple[Any, gymnasium.Space[Any]]], *, sort_keys: bool) -> spaces.Dict:
    """Make a Dict whose keys keep the order given.

    Args:
        items: Pairs of key and space.
        sort_keys: What the attribute of that name says (it changes no order here). Versions that
            do not have it ignore it.

    Returns:
        The Dict.
    """
    # A list of pairs is never sorted, whatever the version.
    if _DICT_TAKES_SORT_KEYS:
        return spaces.Dict(list(items), sort_keys=sort_keys)
    return spaces.Dict(list(items))
