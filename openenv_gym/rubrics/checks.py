"""Checks of settings."""

from __future__ import annotations

import math
from typing import Any

from openenv_gym.errors import ConfigurationError


__all__ = ["finite"]


def finite(name: str, value: Any, low: float = -math.inf, high: float = math.inf) -> float:
    """Return a setting that is a finite number.

    Args:
        name: Its name.
        value: The value.
        low: The least that is taken.
        high: The largest.

    Raises:
        ConfigurationError: It is none, or out of range.
    """
    if (
        not isinstance(value, bool)
        and isinstance(value, (int, float))
        and math.isfinite(value)
        and low <= value <= high
    ):
        return float(value)
    expected = "a finite number"
    if high < math.inf:
        expected = f"a number from {low:g} to {high:g}"
    elif low > -math.inf:
        expected = f"a finite number from {low:g}"
    raise ConfigurationError(f"{name}={value!r:.80}: expected {expected}.", field=name)
