"""Spaces described for those who choose actions: plain JSON data, with labels and words.

A space says which numbers there are; the model that it was made of knows what they are called.
`Notes` keep that beside the space, because a space of Gymnasium's own classes has no place for it
(and must not, or it would no longer equal one without).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces


if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Notes", "describe_space", "plain_label"]

_MAX_BOUNDS = 64  # elements whose bounds are told one by one
_MAX_CHARSET = 256  # characters that are listed


@dataclass(frozen=True, slots=True)
class Notes:
    """What a model knows about a space beyond the space.

    Attributes:
        description: Words of the model about it.
        labels: What the numbers are called, in order from the smallest: of a `Discrete`, of each
            element of a `MultiDiscrete`, of the elements of a `MultiBinary`, of the options of a
            `OneOf`.
        pattern: Regular expression that a text has to match.
        min_length: Least number of items in a sequence, which its space cannot say.
        max_length: Greatest number of items, None without one.
        parts: Notes on the spaces inside: by key of a `Dict`, by index in a `Tuple` or `OneOf`,
            at 0 for the items of a `Sequence`.
    """

    description: str = ""
    labels: tuple[Any, ...] = ()
    pattern: str = ""
    min_length: int = 0
    max_length: int | None = None
    parts: Mapping[Any, Notes] = field(default_factory=dict)


_NOTHING = Notes()


def describe_space(space: gymnasium.Space[Any], notes: Notes | None = None) -> dict[str, Any]:
    """Describe a space in words and numbers.

    Args:
        space: Any space of Gymnasium's own classes; of another class, only its name is told.
        notes: Labels and descriptions, from `ModelMapping.notes`.

    Returns:
        Plain JSON data: `type` (the space's class), then what that class has, as listed in
        ``docs/spaces.md`` section 2.3.
    """
    notes = notes or _NOTHING
    describe = _DESCRIBERS.get(type(space))
    described: dict[str, Any] = {"type": type(space).__name__}
    if describe is not None:
        described.update(describe(space, notes))
    if notes.labels and not isinstance(space, spaces.OneOf):
        described["labels"] = [plain_label(label) for label in notes.labels]
    if notes.description:
        described["description"] = notes.description
    return described


def plain_label(label: Any) -> Any:
    """Return a label of a `Literal` or an `Enum` as JSON has it: an enum's by value or name."""
    if isinstance(label, enum.Enum):
        value = label.value
        return value if value is None or isinstance(value, (str, int, float)) else label.name
    return label.decode(errors="replace") if isinstance(label, bytes) else label


def _box(space: spaces.Box, notes: Notes) -> dict[str, Any]:
    # An integer Box without bounds holds the limits of its dtype, which are no bounds.
    return {
        "dtype": str(space.dtype),
        "shape": list(space.shape),
        "low": _bounds(space.low, np.asarray(space.bounded_below), np.min),
        "high": _bounds(space.high, np.asarray(space.bounded_above), np.max),
    }


def _bounds(bounds: NDArray[Any], bounded: NDArray[Any], widest: Callable[..., Any]) -> Any:
    if not bounds.size or not bounded.any():
        return None
    if bounded.all() and (bounds == bounds.flat[0]).all():
        return bounds.flat[0].item()
    if bounds.size > _MAX_BOUNDS:
        return widest(bounds).item() if bounded.all() else None
    shown = np.empty(bounds.shape, object)
    for index in np.ndindex(bounds.shape):
        shown[index] = bounds[index].item() if bounded[index] else None
    return shown.tolist()


def _discrete(space: spaces.Discrete[Any], notes: Notes) -> dict[str, Any]:
    return {"low": int(space.start), "high": int(space.start) + int(space.n) - 1}


def _multi_binary(space: spaces.MultiBinary, notes: Notes) -> dict[str, Any]:
    return {"shape": list(space.shape), "low": 0, "high": 1}


def _multi_discrete(space: spaces.MultiDiscrete[Any], notes: Notes) -> dict[str, Any]:
    everywhere = np.ones(space.shape, np.bool_)
    return {
        "shape": list(space.shape),
        "low": _bounds(space.start, everywhere, np.min),
        "high": _bounds(space.start + (space.nvec - 1), everywhere, np.max),
    }


def _text(space: spaces.Text, notes: Notes) -> dict[str, Any]:
    described: dict[str, Any] = {"min_length": space.min_length, "max_length": space.max_length}
    if len(space.character_list) <= _MAX_CHARSET:
        described["charset"] = "".join(space.character_list)
    if notes.pattern:
        described["pattern"] = notes.pattern
    return described


def _dict(space: spaces.Dict[Any], notes: Notes) -> dict[str, Any]:
    return {
        "fields": {
            str(key): describe_space(inner, notes.parts.get(key))
            for key, inner in space.spaces.items()
        }
    }


def _tuple(space: spaces.Tuple[Any], notes: Notes) -> dict[str, Any]:
    return {
        "items": [describe_space(inner, notes.parts.get(i)) for i, inner in enumerate(space.spaces)]
    }


def _one_of(space: spaces.OneOf[Any], notes: Notes) -> dict[str, Any]:
    options = []
    for i, inner in enumerate(space.spaces):
        label = {"label": plain_label(notes.labels[i])} if notes.labels else {}
        options.append({**label, **describe_space(inner, notes.parts.get(i))})
    return {"options": options}


def _sequence(space: spaces.Sequence, notes: Notes) -> dict[str, Any]:
    return {
        "min_length": notes.min_length,
        "max_length": notes.max_length,
        "items": describe_space(space.feature_space, notes.parts.get(0)),
    }


def _graph(space: spaces.Graph, notes: Notes) -> dict[str, Any]:
    edges = space.edge_space
    return {
        "nodes": describe_space(space.node_space),
        "edges": None if edges is None else describe_space(edges),
    }


_DESCRIBERS: dict[type, Callable[[Any, Notes], dict[str, Any]]] = {
    spaces.Box: _box,
    spaces.Discrete: _discrete,
    spaces.MultiBinary: _multi_binary,
    spaces.MultiDiscrete: _multi_discrete,
    spaces.Text: _text,
    spaces.Dict: _dict,
    spaces.Tuple: _tuple,
    spaces.OneOf: _one_of,
    spaces.Sequence: _sequence,
    spaces.Graph: _graph,
}
