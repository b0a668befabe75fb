"""Gymnasium's spaces built the same way under every version from 1.2.2 on.

What differs between those versions is known here and nowhere else: `Dict` takes ``sort_keys``
only from 1.4 on, and `Box` leaves scalars where arrays belong.
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
    space = spaces.Box(_bound(low, shape), _bound(high, shape), shape, dtype)
    for name, bounded in (("bounded_below", bounded_below), ("bounded_above", bounded_above)):
        value = getattr(space, name) if bounded is None else bounded
        # Box itself leaves a scalar there when its shape is () and its bounds were arrays.
        if bounded is not None or not isinstance(value, np.ndarray):
            setattr(space, name, np.array(np.broadcast_to(value, shape), dtype=np.bool_))
    return space


def _bound(bound: NDArray[Any], shape: tuple[int, ...]) -> Any:
    # Box makes arrays of Python's numbers much faster than it checks arrays, but it refuses
    # booleans among them.
    if bound.ndim == 0 and bound.dtype.kind != "b":
        return bound.item()
    return np.array(np.broadcast_to(bound, shape))


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
