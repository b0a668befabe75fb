"""When two values are equal, arrays and models among them."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import BaseModel


__all__ = ["equal"]


def equal(one: Any, other: Any) -> bool:
    """Tell whether two values are the same to the bit.

    Unlike ``==`` this takes arrays, wherever they are, whose dtype and shape count as well; and NaN
    equals NaN.

    Args:
        one: Plain values, arrays, models, or containers of them.
        other: What it is compared with.
    """
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return _equal_arrays(one, other)
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(equal(one[key], other[key]) for key in one)
        )
    for kind in (list, tuple):
        if isinstance(one, kind):
            return (
                isinstance(other, kind) and len(one) == len(other) and all(map(equal, one, other))
            )
    if isinstance(one, BaseModel):
        return type(one) is type(other) and equal(_held(one), _held(other))
    return bool(one == other or (one != one and other != other))


def _equal_arrays(one: Any, other: Any) -> bool:
    if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)):
        return False
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype == object:
        return all(map(equal, one.flat, other.flat))
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fcmM"))


def _held(model: BaseModel) -> tuple[Any, ...]:
    """Return all that Pydantic compares: fields, further ones, and what is private."""
    # What a `cached_property` has left in `vars` does not count.
    fields = {name: vars(model)[name] for name in type(model).model_fields if name in vars(model)}
    return fields, model.__pydantic_extra__, model.__pydantic_private__
