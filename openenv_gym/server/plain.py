"""Anything that an environment says, as what JSON can carry."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import BaseModel


__all__ = ["to_plain"]


def to_plain(value: Any) -> Any:
    """Return what JSON can carry of a value, as docs/openenv.md says it.

    Arrays become nested lists, NumPy's numbers plain ones, tuples and sets lists, models objects;
    NaN and infinity become null, as OpenEnv has it; what is nothing of these, its `repr`.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, np.ndarray):
        return to_plain(value.tolist())
    if isinstance(value, np.generic):
        return to_plain(value.item())
    if isinstance(value, Mapping):
        return {str(key): to_plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_plain(each) for each in value]
    if isinstance(value, BaseModel):
        return to_plain(value.model_dump())
    return repr(value)
