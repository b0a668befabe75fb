"""Options of the coding environment, checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from coding_env.server.inside.limits import Limits
from openenv_gym.errors import InvalidOptionError


__all__ = ["check_imports", "check_limits"]

_MIB = 1 << 20
_BOUNDS: dict[str, tuple[float, float, bool]] = {  # least, most, whether a fraction is taken
    "wall_s": (0.05, 3600.0, True),
    "cpu_s": (1, 86_400, False),
    "memory_bytes": (64 * _MIB, 1 << 40, False),
    "file_bytes": (0, 1 << 40, False),
    "open_files": (16, 4096, False),
    "processes": (4, 4096, False),
}


def check_limits(given: dict[str, Any]) -> Limits:
    """Return the limits that options stand for.

    Raises:
        InvalidOptionError: One is no number, or out of its bounds.
    """
    for name, value in given.items():
        least, most, fraction = _BOUNDS[name]
        kinds = (int, float) if fraction else (int,)
        if type(value) not in kinds or not math.isfinite(value) or not least <= value <= most:
            what = "a number" if fraction else "an integer"
            raise InvalidOptionError(
                f"{name}={value!r:.80}: expected {what} from {least:g} to {most:g}.", field=name
            )
    return Limits(**given)


def check_imports(value: object, executor: str) -> tuple[str, ...]:
    """Return names of modules.

    Raises:
        InvalidOptionError: They are none, or the executor lets programs import what they like.
    """
    if isinstance(value, str) or not isinstance(value, Sequence):
        names: tuple[object, ...] | None = None
    else:
        names = tuple(value)
    if names is None or not all(isinstance(name, str) and name for name in names):
        raise InvalidOptionError(
            f"imports={value!r:.80}: expected a list of names of modules.", field="imports"
        )
    if names and executor != "smolagents":
        raise InvalidOptionError(
            "imports: executor='python' lets programs import whatever is installed.",
            field="imports",
            hint="Leave it away, or take executor='smolagents'.",
        )
    return tuple(map(str, names))
