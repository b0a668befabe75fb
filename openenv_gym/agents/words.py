"""Observations and results of tools in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from openenv_gym import errors
from openenv_gym.models.tool_results import plain_of


__all__ = ["observation_text", "result_text"]

_FIRST = "prompt"
_NOT_SEEN = frozenset({"done", "reward", "truncated", "metadata"})
_MOST_NUMBERS = 256
"""An array of more is only described: no model reads a picture as numbers."""


def observation_text(fields: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> str:
    """Return an observation in words.

    A field `prompt` comes first, and only where it is another one than before. An only field that
    is text stands for itself; others have their names before them, and are left out where they are
    empty.

    Args:
        fields: The observation's fields.
        before: Those of the observation before it in the same episode.
    """
    seen = {name: value for name, value in fields.items() if name not in _NOT_SEEN}
    if len(seen) == 1:
        return _words(next(iter(seen.values())))
    lines = []
    prompt = seen.pop(_FIRST, None)
    if isinstance(prompt, str) and prompt and prompt != (before or {}).get(_FIRST):
        lines.append(prompt)
    for name, value in seen.items():
        if value is None or (isinstance(value, (str, list, dict)) and not value):
            continue
        text = _words(value)
        lines.append(f"{name}:{chr(10) if chr(10) in text.strip() else ' '}{text}")
    return "\n".join(lines)


def result_text(result: Any) -> str:
    """Return what a tool returned in words: text as it is, the rest as JSON."""
    return "" if result is None else _words(result)


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(plain_of(_short(value)), ensure_ascii=False)
    except errors.EncodeError:
        return str(value)


def _short(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.size > _MOST_NUMBERS:
        return f"an array of dtype {value.dtype} and shape {value.shape}"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{len(value)} bytes"
    if isinstance(value, Mapping):
        return {str(name): _short(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(each) for each in value]
    return value
