"""Comparing spaces and samples to the bit; Gymnasium's ``==`` lets much pass."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs


_CHILDREN = ("feature_space", "node_space", "edge_space")
_VALUES = ("n", "start", "nvec", "low", "high", "bounded_below", "bounded_above")


def assert_identical(a: Any, b: Any, path: str = "value") -> None:
    """Two values agree in types, dtypes, shapes, order of keys and bits."""
    assert type(a) is type(b), path
    if isinstance(a, (np.ndarray, np.generic)):
        assert a.dtype == b.dtype and a.shape == b.shape, path
        assert a.tobytes() == b.tobytes(), path
    elif isinstance(a, dict):
        assert list(a) == list(b), path
        for key in a:
            assert_identical(a[key], b[key], f"{path}[{key!r}]")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), path
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_identical(x, y, f"{path}[{i}]")
    elif isinstance(a, gymnasium.Space):
        assert_same_space(a, b, path)
    else:
        assert a == b, path


def assert_same_space(a: Any, b: Any, path: str = "space") -> None:
    """Two spaces agree in every attribute but the state of their generators."""
    assert type(a) is type(b), path
    assert a.dtype == b.dtype and a.shape == b.shape, path
    for name in _VALUES:
        if hasattr(a, name):
            x, y = getattr(a, name), getattr(b, name)
            # A Box of shape () keeps either a 0-d array or a scalar there.
            bounded = name.startswith("bounded")
            assert_identical(
                np.asarray(x) if bounded else x, np.asarray(y) if bounded else y, f"{path}.{name}"
            )
    for name in _CHILDREN:
        if hasattr(a, name):
            assert_identical(getattr(a, name), getattr(b, name), f"{path}.{name}")
    if isinstance(a, (gs.Dict, gs.Tuple, gs.OneOf)):
        assert_identical(a.spaces, b.spaces, path)
    if isinstance(a, gs.Dict):
        assert getattr(a, "sort_keys", True) == getattr(b, "sort_keys", True), path
    if isinstance(a, gs.Sequence):
        assert a.stack is b.stack, path
    if isinstance(a, gs.Text):
        assert (a.min_length, a.max_length) == (b.min_length, b.max_length), path
        assert a.character_list == b.character_list, path


def samples(space: gymnasium.Space[Any], seed: int, count: int = 3) -> list[Any]:
    """What a space samples after seeding: values, or the exception's class where it cannot."""
    found: list[Any] = [space.seed(seed)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # Box near the limits of 64 bits
        for _ in range(count):
            try:
                found.append(space.sample())
            except (ValueError, OverflowError, TypeError, AssertionError) as error:
                found.append(type(error).__name__)
    return found
