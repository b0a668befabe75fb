"""The first place in which two values differ: in type, dtype, shape, order of keys, or bits."""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from openenv_gym.recording.format import pack, unpack


__all__ = ["Fork", "first_fork", "without", "without_keys"]

_MISSING = "(nothing)"


class Fork(NamedTuple):
    """Where two values part.

    Attributes:
        path: Where in the value, such as ``observation['board'][2, 3]``.
        indices: Keys and indices on that path, as they are.
        recorded: What is in the recording.
        replayed: What came now.
    """

    path: str
    indices: tuple[Any, ...]
    recorded: Any
    replayed: Any


def first_fork(name: str, recorded: Any, replayed: Any) -> Fork | None:
    """Return the first difference of two values; None where every bit is the same.

    Args:
        name: Of the value; paths begin with it.
        recorded: As it is in a recording.
        replayed: As an environment returned it.

    Raises:
        EncodeError: What the environment returned could not have been recorded.
    """
    packed = pack(replayed, name)
    if packed == pack(recorded, name):
        return None
    return _search(name, (), recorded, unpack(packed))


def without(info: Any, keys: Collection[str]) -> Any:
    """Return an info without some keys, whose dotted names are given; and without their masks."""
    if not isinstance(info, dict) or not keys:
        return info
    inner: dict[str, set[str]] = {}
    for key in keys:
        head, _, rest = key.partition(".")
        inner.setdefault(head, set()).add(rest)
    kept = {}
    for key, value in info.items():
        rests = inner.get(key)
        if rests is None and isinstance(key, str) and key.startswith("_"):
            rests = inner.get(key[1:], set()) & {""}
        if rests and "" in rests:
            continue
        kept[key] = without(value, rests) if rests else value
    return kept


def without_keys(info: Any, keys: Collection[Any]) -> Any:
    """Return an info without some of its own keys, whatever these contain.

    Args:
        info: Of an environment, or those of a vector.
        keys: These; of a vector their masks, too.
    """
    if not keys or not isinstance(info, dict):
        return info
    kept = {key: value for key, value in info.items() if key not in keys}
    if "final_info" in kept:  # of the episode that ended in a step that also began the next
        kept["final_info"] = without_keys(kept["final_info"], keys)
    return kept


def _search(path: str, at: tuple[Any, ...], a: Any, b: Any) -> Fork | None:
    if type(a) is not type(b):
        return Fork(path, at, a, b)
    if isinstance(a, np.ndarray):
        return _search_arrays(path, at, a, b)
    if isinstance(a, dict):
        for key in [*a, *(key for key in b if key not in a)]:
            fork = _search_item(f"{path}[{key!r}]", (*at, key), a, b, key)
            if fork is not None:
                return fork
        return None if list(a) == list(b) else Fork(f"{path}.keys()", at, list(a), list(b))
    if isinstance(a, (list, tuple)):
        for index in range(max(len(a), len(b))):
            if index >= min(len(a), len(b)):
                pair = (x[index] if index < len(x) else _MISSING for x in (a, b))
                return Fork(f"{path}[{index}]", (*at, index), *pair)
            if fork := _search(f"{path}[{index}]", (*at, index), a[index], b[index]):
                return fork
        return None
    return None if _bits(a) == _bits(b) else Fork(path, at, a, b)


def _search_item(path: str, at: tuple[Any, ...], a: Any, b: Any, key: Any) -> Fork | None:
    if key in a and key in b:
        return _search(path, at, a[key], b[key])
    return Fork(path, at, a.get(key, _MISSING), b.get(key, _MISSING))


def _search_arrays(path: str, at: tuple[Any, ...], a: Any, b: Any) -> Fork | None:
    if a.dtype != b.dtype:
        return Fork(f"{path}.dtype", at, a.dtype, b.dtype)
    if a.shape != b.shape:
        return Fork(f"{path}.shape", at, a.shape, b.shape)
    if a.dtype.hasobject:
        for index in np.ndindex(a.shape):
            where = f"{path}[{', '.join(map(str, index))}]" if index else path
            if fork := _search(where, (*at, *index), a[index], b[index]):
                return fork
        return None
    size = a.dtype.itemsize
    if not a.size or not size:
        return None
    raw = [np.frombuffer(each.tobytes(), np.uint8).reshape(-1, size) for each in (a, b)]
    differing = (raw[0] != raw[1]).any(axis=1)
    if not differing.any():
        return None
    index = tuple(map(int, np.unravel_index(int(differing.argmax()), a.shape)))
    where = f"{path}[{', '.join(map(str, index))}]" if index else path
    return Fork(where, (*at, *index), a[index], b[index])


def _bits(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.dtype, value.tobytes()
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, complex):
        return struct.pack("<dd", value.real, value.imag)
    if isinstance(value, (set, frozenset)):
        return len(value), {_bits(each) for each in value}
    return value
