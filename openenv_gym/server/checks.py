"""Checks of keyword arguments, for environments: what is wrong is said in the same words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openenv_gym.errors import InvalidOptionError


__all__ = ["check_choice", "check_integer", "check_number", "merge_numbers"]


def check_choice(field: str, value: Any, choices: Sequence[str | bool | None]) -> None:
    """Refuse what is not one of a few values.

    Args:
        field: Name of the option.
        value: Its value.
        choices: What is taken.

    Raises:
        InvalidOptionError: It is another one.
    """
    # By type first: another's `__eq__` may raise, as an array's does, and 1 is no True.
    if type(value) not in map(type, choices) or value not in choices:
        raise InvalidOptionError(
            f"{field}={value!r:.80}: expected {' or '.join(map(repr, choices))}.", field=field
        )


def check_integer(
    field: str, value: Any, low: int, high: int | None = None, *, optional: bool = False
) -> None:
    """Refuse what is no integer within bounds; booleans are none.

    Args:
        field: Name of the option.
        value: Its value.
        low: The least that is taken.
        high: The most that is taken; None where there is no such bound.
        optional: Take None as well.

    Raises:
        InvalidOptionError: It is something else.
    """
    if optional and value is None:
        return
    if type(value) is not int or value < low or (high is not None and value > high):
        bounds = f"from {low}" if high is None else f"from {low} to {high}"
        raise InvalidOptionError(
            f"{field}={value!r:.80}: expected an integer {bounds}{' or None' if optional else ''}.",
            field=field,
        )


def check_number(field: str, value: Any, *, low: float = -1e9, optional: bool = False) -> None:
    """Refuse what is no number up to 1e9; booleans are none.

    The bounds keep sums of such numbers finite.

    Args:
        field: Name of the option.
        value: Its value.
        low: The least that is taken.
        optional: Take None as well.

    Raises:
        InvalidOptionError: It is something else.
    """
    if optional and value is None:
        return
    # The comparisons are false for NaN.
    if type(value) not in (int, float) or not low <= value <= 1e9:
        raise InvalidOptionError(
            f"{field}={value!r:.80}: expected a number from {_short(low)} to 1e9"
            f"{' or None' if optional else ''}.",
            field=field,
        )


def merge_numbers(field: str, value: Any, defaults: Mapping[str, float]) -> dict[str, float]:
    """Return numbers by name, with defaults for those that are not given.

    Args:
        field: Name of the option.
        value: The numbers that are given, or None.
        defaults: All of them.

    Raises:
        InvalidOptionError: It is no mapping, has a name that is not known, or holds no number.
    """
    if value is None:
        return dict(defaults)
    if not isinstance(value, Mapping) or not value.keys() <= defaults.keys():
        raise InvalidOptionError(
            f"{field}={value!r:.80}: expected a mapping with some of {', '.join(defaults)}.",
            field=field,
        )
    for each in value.values():
        check_number(field, each)
    return {**defaults, **value}


def _short(number: float) -> str:
    return f"{number:g}".replace("e+0", "e")
