"""Attributes of an environment, read, set and called from afar (docs/protocol.md, section 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openenv_gym import errors
from openenv_gym.protocol.codec import encode_packet


__all__ = ["METHOD", "OBJECT", "VALUE", "action_labels", "assign", "describe", "resolve"]

VALUE, METHOD, OBJECT = 0, 1, 2
"""Kinds of what `get` answers."""


def resolve(target: Any, path: str) -> Any:
    """Follow a dotted path.

    Raises:
        ProtocolError: A part of it is no name, or one that Python keeps for itself.
        AttributeError: There is no such attribute.
    """
    for name in _parts(path):
        target = getattr(target, name)
    return target


def action_labels(target: Any) -> Sequence[str]:
    """Return what an environment calls its actions, by the method that Atari games have for it."""
    method = getattr(target, "get_action_meanings", None)
    if not callable(method):
        return ()
    found = method()
    return [str(each) for each in found] if isinstance(found, (list, tuple)) else ()


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


def describe(value: Any) -> list[Any]:
    """Return ``[kind, value]``: what can be sent as it is, of anything else the name of its type.

    The codec itself is asked, so that nothing counts as a value and then cannot be sent.
    """
    try:
        encode_packet([value])
    except errors.EncodeError:
        return [METHOD if callable(value) else OBJECT, type(value).__name__]
    return [VALUE, value]


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
