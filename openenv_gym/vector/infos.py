"""Infos of several servers as one: what one `_add_info` over all sub-environments would give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from openenv_gym.vector.batches import Part


__all__ = ["merge_infos", "take_infos", "with_masks"]


def merge_infos(parts: Sequence[Part], count: int) -> dict[str, Any]:
    """Put infos together.

    As in `gymnasium.vector.VectorEnv._add_info`, the first sub-environment that has a key decides
    about dtype and shape of its array, and where the mask is false, there are zeros or None.

    Args:
        parts: For each server the rows that are its own, and its infos for them.
        count: Number of sub-environments.
    """
    if len(parts) > 1 and _cover_all(parts, count):
        joined = _join([infos for _, infos in parts])
        if joined is not None:
            return joined
    merged: dict[str, Any] = {}
    for rows, infos in parts:
        size = len(range(*rows.indices(count))) if isinstance(rows, slice) else len(rows)
        _add(merged, infos, rows, size, count)
    return merged


def with_masks(infos: dict[str, Any], count: int) -> dict[str, Any]:
    """Return infos with the masks that a server leaves out because they are true everywhere.

    Args:
        infos: What a server sent.
        count: Number of its sub-environments.
    """
    whole: dict[str, Any] = {}
    full = np.ones(count, np.bool_)
    for key, value in infos.items():
        if _is_mask(key, infos):
            continue
        whole[key] = with_masks(value, count) if type(value) is dict else value
        mask = infos.get(f"_{key}")
        whole[f"_{key}"] = full.copy() if mask is None else mask
    return whole


def take_infos(infos: dict[str, Any], rows: Any) -> dict[str, Any]:
    """Return the infos of some sub-environments; keys that none of them has are left out.

    Args:
        infos: Infos of all.
        rows: Which ones: an array of numbers.
    """
    taken: dict[str, Any] = {}
    for key, value in infos.items():
        if _is_mask(key, infos):
            continue
        mask = infos.get(f"_{key}")
        if mask is not None:
            mask = mask[rows]
            if not mask.any():
                continue
            taken[f"_{key}"] = mask
        taken[key] = take_infos(value, rows) if isinstance(value, dict) else value[rows]
    return taken


def _cover_all(parts: Sequence[Part], count: int) -> bool:
    """Tell whether the rows of the parts are all rows, in their order."""
    end = 0
    for rows, _ in parts:
        if not isinstance(rows, slice) or rows.start != end or rows.step is not None:
            return False
        end = rows.stop
    return end == count


def _join(infos: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return infos one behind the other; None where they differ, or lack something somewhere."""
    first, *others = infos
    if any(other.keys() != first.keys() for other in others):
        return None
    joined: dict[str, Any] = {}
    for key, value in first.items():
        values = [each[key] for each in infos]
        if type(value) is not np.ndarray or value.dtype.kind == "O":
            return None
        if any(
            type(other) is not np.ndarray
            or other.dtype != value.dtype
            or other.shape[1:] != value.shape[1:]
            for other in values
        ):
            return None
        joined[key] = column = np.concatenate(values)
        if not _is_mask(key, first):
            if f"_{key}" not in first:
                joined[f"_{key}"] = np.ones(len(column), np.bool_)
        elif not column.all():
            return None
    return joined


def _add(merged: dict[str, Any], infos: dict[str, Any], rows: Any, size: int, count: int) -> None:
    for key, value in infos.items():
        if _is_mask(key, infos):
            continue
        mask = infos.get(f"_{key}")
        if mask is None:
            mask = np.ones(size, np.bool_)
        if isinstance(value, dict):
            found = merged.setdefault(key, {})
            _add(found, value, rows, size, count)
        else:
            if key not in merged:
                merged[key] = _blank(value, count)
            _put(merged[key], rows, value, mask)
        name = f"_{key}"
        if name not in merged:
            merged[name] = np.zeros(count, np.bool_)
        merged[name][rows] = mask


def _is_mask(key: Any, infos: dict[str, Any]) -> bool:
    return isinstance(key, str) and key.startswith("_") and key[1:] in infos


def _blank(value: Any, count: int) -> npt.NDArray[Any]:
    if value.dtype == object:
        return np.full(count, None, object)
    return np.zeros((count, *value.shape[1:]), value.dtype)


def _put(array: npt.NDArray[Any], rows: Any, values: Any, mask: npt.NDArray[np.bool_]) -> None:
    if mask.all():
        array[rows] = values
        return
    # Elsewhere stays what the first server's dtype has for nothing.
    numbers = np.arange(len(array))[rows][mask]
    array[numbers] = values[mask]
