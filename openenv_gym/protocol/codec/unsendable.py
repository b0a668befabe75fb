"""Which value of a message cannot be sent: its path, for the error.

Encoding itself knows no paths, so that it need not keep them; the message is searched once it has
failed.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NoReturn

import numpy as np
from gymnasium.spaces import GraphInstance

from openenv_gym.errors import DecodeError, EncodeError, OpenEnvGymError
from openenv_gym.protocol.codec.conversion import Converter, too_deep
from openenv_gym.protocol.codec.format import MAX_DEPTH
from openenv_gym.protocol.codec.head import flatten_head


__all__ = ["raise_encode_error"]


def raise_encode_error(
    message: Iterable[Any], names: Sequence[Any] | None, error: Exception
) -> NoReturn:
    """Raise the error for a message that could not be encoded, naming the value to blame.

    Args:
        message: The message.
        names: Names of its items; see `encode_packet`.
        error: What encoding it raised.

    Raises:
        EncodeError: Always.
    """
    for index, item in enumerate(message):
        name = names[index] if names is not None and index < len(names) else None
        if name is None or isinstance(name, str):
            _search(name or f"[{index}]", item, 2)
        elif isinstance(item, (list, tuple)):
            for i, inner in enumerate(item):
                _search(name[i] if i < len(name) else f"[{index}][{i}]", inner, 3)
    # No value is bad by itself.
    hint = "Send numbers as NumPy arrays." if isinstance(error, DecodeError) else None
    raise EncodeError(f"The message cannot be sent: {error}", hint=hint) from error


def _search(path: str, value: Any, depth: int) -> None:
    """Raise an EncodeError where a value cannot be sent, or one inside it.

    Args:
        path: Where the value is.
        value: The value.
        depth: Its level of nesting, should it be an array or a map.
    """
    kind = type(value)
    if kind in (float, bool, bytes) or (kind is int and abs(value) < 2**63):
        return  # not to be slow with a million numbers
    try:
        children = _children(path, value)
        if children is None:
            flatten_head(Converter().new_packer().pack([value]))
            return
        if depth > MAX_DEPTH:
            path = path if len(path) <= 80 else f"{path[:80]}..."
            raise too_deep()
    except Exception as error:
        reason = error.message if isinstance(error, OpenEnvGymError) else str(error)
        raise EncodeError(
            f"{path} (of type {kind.__qualname__}) cannot be sent: {reason.rstrip('.')}.",
            field=path,
            hint=getattr(error, "hint", None),
            data={"type": kind.__qualname__},
        ) from None
    for child_path, child in children:
        _search(child_path, child, depth + 1)


def _children(path: str, value: Any) -> Iterable[tuple[str, Any]] | None:
    """Return paths and values of what a value contains; None where it is a plain one."""
    if isinstance(value, Enum):
        value = value.value
    if callable(getattr(type(value), "model_dump", None)):
        value = value.model_dump()
    if isinstance(value, Mapping):
        pairs = dict(value).items()
        keys = [(f"{path}.keys()[{index}]", key) for index, (key, _) in enumerate(pairs)]
        return keys + [(f"{path}[{reprlib.repr(key)}]", item) for key, item in pairs]
    if isinstance(value, GraphInstance):
        return [(f"{path}.{name}", getattr(value, name)) for name in GraphInstance._fields]
    if isinstance(value, (list, tuple)):
        return [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    if isinstance(value, (set, frozenset)):
        return [(f"{path}{{{reprlib.repr(item)}}}", item) for item in value]
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return [
            (f"{path}[{', '.join(map(str, index))}]", item) for index, item in np.ndenumerate(value)
        ]
    return None
