"""Attributes of an environment, read, set and called from afar (docs/protocol.md, section 4.3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from openenv_gym import errors


__all__ = ["assign", "describe", "resolve"]

_PLAIN = (type(None), bool, int, float, complex, str, bytes, np.ndarray, np.generic)


def resolve(target: Any, path: str) -> Any:
    """Follow a dotted path.

    Raises:
        ProtocolError: A part of it is no name, or one that Python keeps for itself.
        AttributeError: There is no such attribute.
    """
    for name in _parts(path):
        target = getattr(target, name)
    return target


def assign(target: Any, path: str, value: Any) -> None:
    """Set the attribute at a dotted path.

    Raises:
        ProtocolError: As for `resolve`.
        AttributeError: There is no such attribute.
    """
    *parents, name = _parts(path)
    for parent in parents:
        target = getattr(target, parent)
    setattr(target, name, value)


def describe(value: Any) -> Any:
    """Return plain data as it is, and of anything else a reference."""
    if is_plain(value):
        return value
    kind = "method" if callable(value) else "object"
    return {"$ref": kind, "type": type(value).__name__}


def is_plain(value: Any) -> bool:
    """Tell whether the codec can carry a value (containers are looked into)."""
    if isinstance(value, np.ndarray):
        return value.dtype != object or all(is_plain(item) for item in value.flat)
    if isinstance(value, _PLAIN):
        return True
    if type(value) in (list, tuple, set, frozenset):
        return all(is_plain(item) for item in value)
    if type(value) is dict:
        return all(is_plain(key) and is_plain(item) for key, item in value.items())
    return False


def _parts(path: Any) -> list[str]:
    parts = path.split(".") if isinstance(path, str) else []
    for name in parts:
        # Names with two underscores lead from any object to the whole interpreter.
        if not name.isidentifier() or name.startswith("__"):
            parts = []
    if not parts:
        raise errors.ProtocolError(
            f"{path!r:.80} is no path of names without leading double underscores.", field="path"
        )
    return parts
