"""Batches of infos, as `gymnasium.vector.VectorEnv._add_info` makes them.

Each key of an info becomes an array over all sub-environments, beside a mask ``_key`` of those
that have it. The dtype is that of the first value; where a type has none, the array holds objects.

So it does for the rewards of the steps of an episode (``step_rewards``), of which there are as many
as there were steps.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


__all__ = ["add_info", "batch_infos", "everywhere", "with_short_masks"]

_APART = frozenset({"final_obs", "step_rewards"})
"""Keys whose values are never stacked."""
_NUMBERS = frozenset({int, float, bool})

Info = dict[Any, Any]


@functools.lru_cache(maxsize=64)
def everywhere(count: int) -> npt.NDArray[np.bool_]:
    """Return the mask of what all sub-environments have, always the same array."""
    mask = np.ones(count, np.bool_)
    mask.flags.writeable = False
    return mask


def with_short_masks(infos: Info, count: int) -> Info:
    """Return infos with True in the place of masks that `everywhere` returned."""
    full = everywhere(count)
    return {
        key: with_short_masks(value, count)
        if type(value) is dict
        else (True if value is full else value)
        for key, value in infos.items()
    }


def batch_infos(
    infos: Sequence[Info | None],
    finals: Mapping[int, Info],
    failures: list[tuple[int, BaseException]],
) -> Info:
    """Return the batch of the infos of all sub-environments.

    Args:
        infos: One for each; None where there is none.
        finals: By index, what an episode that has just ended leaves behind.
        failures: Takes those whose values cannot stand in an array beside those of the others.
    """
    if not finals and not any(infos):
        return {}
    count = len(infos)
    batch = None if finals else _columns(infos, count)
    if batch is None:
        batch = {}
        for index, info in enumerate(infos):
            try:
                if index in finals:
                    add_info(batch, finals[index], index, count)
                if info:
                    add_info(batch, info, index, count)
            except Exception as error:
                failures.append((index, error))
    return batch


def add_info(batch: Info, info: Info, index: int, count: int) -> None:
    """Add the info of one sub-environment.

    Args:
        batch: The batch so far.
        info: The info.
        index: Whose it is.
        count: Number of sub-environments.

    Raises:
        Exception: The value cannot stand in an array beside those of the others.
    """
    for key, value in info.items():
        array: Any
        if key in _APART:
            array = batch.get(key)
            if array is None:
                array = np.full(count, None, object)
            array[index] = value
        elif isinstance(value, dict):
            array = batch.get(key, {})
            add_info(array, value, index, count)
        else:
            array = batch.get(key)
            if array is None:
                array = _array_for(value, count)
            array[index] = value
        batch[key] = array
        name = f"_{key}"
        mask = batch.get(name)
        if mask is None:
            batch[name] = mask = np.zeros(count, np.bool_)
        mask[index] = True


def _array_for(value: Any, count: int) -> Any:
    kind = type(value)
    if kind in _NUMBERS or issubclass(kind, np.number):
        return np.zeros(count, kind)
    if isinstance(value, np.ndarray):
        return np.zeros((count, *value.shape), value.dtype)
    return np.full(count, None, object)


def _columns(infos: Sequence[Info | None], count: int) -> Info | None:
    """Return the batch where all infos have the same keys with values of the same form.

    Most environments tell the same numbers in each step. A column at a time, that takes a fraction
    of the time; None where it is not so simple.
    """
    first = infos[0]
    if not first or not _APART.isdisjoint(first):
        return None
    size = len(first)
    batch: Info = {}
    try:
        for info in infos:
            if len(info) != size:  # type: ignore[arg-type]  # None raises as well
                return None
        for key, value in first.items():
            column = _column(value, [info[key] for info in infos])  # type: ignore[index]
            if column is None:
                return None
            batch[key] = column
            batch[f"_{key}"] = everywhere(count)
    except (KeyError, OverflowError, TypeError):
        return None
    return batch


def _column(first: Any, values: list[Any]) -> Any:
    kind = type(first)
    if set(map(type, values)) != {kind}:
        return None
    if kind in _NUMBERS or (issubclass(kind, np.number) and kind is not np.timedelta64):
        return np.array(values, kind)
    if kind is np.ndarray:
        shape, dtype = first.shape, first.dtype
        if dtype.hasobject:
            return None
        for value in values:
            if value.shape != shape or value.dtype != dtype:
                return None
        return np.array(values, dtype)
    return None
