"""Infos of several servers as one: what one `_add_info` over all sub-environments would give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from openenv_gym.vector.batches import Part, Rows


__all__ = ["info_of", "merge_infos", "renew_infos", "take_infos", "with_masks"]


def merge_infos(parts: Sequence[Part], count: int) -> dict[str, Any]:
    """Put infos together.

    As in `gymnasium.vector.VectorEnv._add_info`, the first sub-environment that has a key decides
    about dtype and shape of its array, and where the mask is false, there are zeros or None.

    Args:
        parts: For each server the rows that are its own, and its infos for them.
        count: Number of sub-environments.
    """
    if len(parts) > 1 and _cover_all(parts, count):
        joined = _join([infos for _, infos in parts], [_size(rows, count) for rows, _ in parts])
        if joined is not None:
            return joined
    merged: dict[str, Any] = {}
    for rows, infos in parts:
        _add(merged, infos, rows, _size(rows, count), count)
    return merged


def _size(rows: Rows, count: int) -> int:
    return len(range(*rows.indices(count))) if isinstance(rows, slice) else len(rows)


def _as_column(value: Any, size: int) -> npt.NDArray[Any]:
    """Return a value with a row for each sub-environment of a server.

    An engine of an environment's own tells whatever it likes; what is not one for each is the same
    for all.
    """
    if isinstance(value, np.ndarray) and value.shape[:1] == (size,):
        return value
    if isinstance(value, (list, tuple)) and len(value) == size:
        column = np.asarray(value)  # a mask, maybe
        if column.ndim == 1 and column.dtype.kind in "biuf":
            return column
    if isinstance(value, (bool, int, float, np.generic, np.ndarray)):
        return np.repeat(np.asarray(value)[np.newaxis], size, axis=0)
    column = np.empty(size, object)
    for row in range(size):
        column[row] = value
    return column


def with_masks(infos: dict[str, Any], count: int) -> dict[str, Any]:
    """Return infos with all masks in full: where one is true everywhere, a server may send True.

    Args:
        infos: What a server sent.
        count: Number of its sub-environments.
    """
    whole: dict[str, Any] = {}
    full = np.ones(count, np.bool_)
    for key, value in infos.items():
        if value is True:
            whole[key] = full.copy()
        else:
            whole[key] = with_masks(value, count) if type(value) is dict else value
    return whole


def take_infos(infos: dict[str, Any], rows: Any) -> dict[str, Any]:
    """Return the infos of some sub-environments; keys that none of them has are left out.

    Args:
        infos: Infos of all.
        rows: Which ones: an array of numbers.
    """
    taken: dict[str, Any] = {}
    if not len(rows):
        return taken
    masks = {f"_{key}" for key in infos}
    for key, value in infos.items():
        if key in masks:
            continue
        mask = infos.get(f"_{key}")
        if mask is True:
            taken[f"_{key}"] = True
        elif mask is not None:
            mask = mask[rows]
            if not mask.any():
                continue
            taken[f"_{key}"] = mask
        taken[key] = take_infos(value, rows) if isinstance(value, dict) else value[rows]
    return taken


def renew_infos(
    infos: dict[str, Any], fresh: dict[str, Any], again: npt.NDArray[np.bool_]
) -> dict[str, Any]:
    """Return infos in which those of some sub-environments are of a reset of these alone.

    Args:
        infos: Of all, before it.
        fresh: What the reset returned.
        again: Which ones were reset.
    """
    parts: list[Part] = []
    for each, chosen in ((infos, ~again), (fresh, again)):
        rows = np.flatnonzero(chosen)
        parts.append((rows, take_infos(each, rows)))
    return merge_infos(parts, len(again))


def info_of(infos: dict[str, Any], number: int) -> dict[str, Any]:
    """Return the info of one sub-environment, out of those of all of them."""
    info: dict[str, Any] = {}
    masks = {f"_{key}" for key in infos}  # an environment's own key may begin with "_", too
    for key, value in infos.items():
        if key in masks:
            continue
        present = infos.get(f"_{key}")
        if present is not None and not present[number]:
            continue
        info[key] = info_of(value, number) if isinstance(value, dict) else value[number]
    return info


def _cover_all(parts: Sequence[Part], count: int) -> bool:
    """Tell whether the rows of the parts are all rows, in their order."""
    end = 0
    for rows, _ in parts:
        if not isinstance(rows, slice) or rows.start != end or rows.step is not None:
            return False
        end = rows.stop
    return end == count


def _join(infos: Sequence[dict[str, Any]], sizes: Sequence[int]) -> dict[str, Any] | None:
    """Return infos one behind the other; None where they are not of one form."""
    first, *others = infos
    if any(list(other) != list(first) for other in others):
        return None
    joined: dict[str, Any] = {}
    short: list[Any] = []
    count = 0
    for key, value in first.items():
        values = [each[key] for each in infos]
        if value is True and all(other is True for other in values):
            joined[key] = True
            short.append(key)
            continue
        if type(value) is not np.ndarray:
            return None
        for other, size in zip(values, sizes, strict=True):
            if (
                type(other) is not np.ndarray
                or other.dtype != value.dtype
                or other.shape != (size, *value.shape[1:])
            ):
                return None
        joined[key] = column = np.concatenate(values)
        count = len(column)
    for key in short:
        joined[key] = np.ones(count, np.bool_)
    return joined if count or not short else None


def _add(merged: dict[str, Any], infos: dict[str, Any], rows: Any, size: int, count: int) -> None:
    # A mask is a column like others: an environment's own key may well begin with "_".
    for key, value in infos.items():
        if isinstance(value, dict):
            _add(merged.setdefault(key, {}), value, rows, size, count)
            continue
        value = _as_column(value, size)
        if key not in merged:
            merged[key] = _blank(value, count)
        mask = infos.get(f"_{key}")
        is_mask = isinstance(mask, np.ndarray) and mask.dtype == np.bool_
        _put(merged[key], rows, value, mask if is_mask else None)


def _blank(value: Any, count: int) -> npt.NDArray[Any]:
    # Arrays of objects that environments give have zeros for nothing, as those of numbers.
    if value.dtype == object and value.ndim == 1:
        return np.full(count, None, object)
    return np.zeros((count, *value.shape[1:]), value.dtype)


def _put(
    array: npt.NDArray[Any], rows: Any, values: Any, mask: npt.NDArray[np.bool_] | None
) -> None:
    if array.dtype == object and array.ndim == 1 < values.ndim:
        # Objects and arrays under one key: the arrays are objects, too.
        there = np.ones(len(values), np.bool_) if mask is None else mask
        for number, value in zip(np.arange(len(array))[rows][there], values[there], strict=True):
            array[number] = value
        return
    # Where the dtype is the same, nothing looks the same everywhere.
    if mask is None or array.dtype == values.dtype or mask.all():
        array[rows] = values
        return
    # Elsewhere stays what the first server's dtype has for nothing.
    numbers = np.arange(len(array))[rows][mask]
    array[numbers] = values[mask]
