"""Gymnasium space <-> plain data, the form in which spaces travel (``docs/spaces.md``).

One class for each space class says both how it is written and how it is read; the table `_FORMS`
lists them. Plain data is ``dict``, ``list``, ``str``, ``int``, ``float``, ``bool``, ``None`` and
``np.ndarray``; what turns those into bytes is the codec's business.

A space that comes back equals the one that went, has the same classes and dtypes all the way
down, and draws the same samples from the same seed. The state of its generator does not travel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium import spaces

from openenv_gym.errors import SpaceError
from openenv_gym.spaces.compat import make_box, make_dict
from openenv_gym.spaces.plain import Budget, Fields, dtype_name, pack_array


__all__ = ["space_from_data", "space_to_data"]

_LIMIT = 64 << 20  # bytes of bounds that the data did not carry
_MAX_DEPTH = 16  # a Dict in a Dict takes three levels of data, and a packet has 64
_OBJECT_WEIGHT = 16 << 10  # what one space object counts for; it takes time as well
_SHARED = "Shared"

# What writes, or reads, a space inside another: (space or its data, its path).
_Write = Callable[[Any, str], dict[str, Any]]
_Read = Callable[[Any, str], Any]


def space_to_data(space: gymnasium.Space[Any], name: str = "space") -> dict[str, Any]:
    """Describe a space in plain data.

    Args:
        space: Any space of Gymnasium's own classes, nested as it may be.
        name: What errors call it.

    Returns:
        The description. Arrays in it may be the space's own.

    Raises:
        SpaceError: It holds a space of another class, a Dict key or a dtype that cannot be sent,
            or is nested too deeply; `field` is the path to it.
    """
    numbers: dict[int, int] = {}

    def write(inner: Any, path: str, depth: int) -> dict[str, Any]:
        if id(inner) in numbers:
            return {"type": _SHARED, "number": numbers[id(inner)]}
        form = _FORMS.get(type(inner))
        if form is None:
            raise SpaceError(
                f"{path} is a {type(inner).__module__}.{type(inner).__qualname__}, "
                "which cannot be sent.",
                field=path,
                hint=f"Use one of {', '.join(cls.__name__ for cls in _FORMS)} themselves: what a "
                "subclass or a class of one's own adds is unknown on the other side.",
            )
        _check_depth(depth, path)
        numbers[id(inner)] = len(numbers)
        fields = form.write(inner, path, lambda child, at: write(child, at, depth + 1))
        return {"type": type(inner).__name__, **fields}

    return write(space, name, 0)


def space_from_data(data: Any, name: str = "space") -> gymnasium.Space[Any]:
    """Make the space that plain data describes.

    Args:
        data: What `space_to_data` returned, here or elsewhere. It is not trusted: anything at all
            may be passed.
        name: What errors call the space.

    Returns:
        A new space, which shares no memory with `data`.

    Raises:
        SpaceError: The data describes no space, one that this Gymnasium does not have, or one
            that takes more than 64 MiB beyond the data itself; `field` is the path to the fault.
    """
    budget = Budget(_LIMIT)
    known: list[tuple[gymnasium.Space[Any], int] | None] = []

    def read(inner: Any, path: str, depth: int) -> gymnasium.Space[Any]:
        fields = Fields(inner, path)
        kind = fields.text("type")
        if kind == _SHARED:
            number = fields.integer("number")
            found = known[number] if 0 <= number < len(known) else None
            if found is None:
                fields.fail("number", f"is {number}, which no finished space before it has")
            # It costs nothing to hold twice, but everything that walks the space visits it twice.
            budget.grow(found[1], path)
            return found[0]
        form = _FORMS_BY_NAME.get(kind)
        if form is None:
            fields.fail("type", f"is {kind[:60]!r}, expected one of {', '.join(_FORMS_BY_NAME)}")
        _check_depth(depth, path)
        number, before = len(known), budget.weight
        known.append(None)
        budget.hold(_OBJECT_WEIGHT)
        try:
            space: gymnasium.Space[Any] = form.read(
                fields, budget, lambda child, at: read(child, at, depth + 1)
            )
        except SpaceError:
            raise
        except (AssertionError, TypeError, ValueError, OverflowError, MemoryError) as error:
            # What Gymnasium's own constructors raise, AssertionError in the older ones.
            reason = str(error).rstrip(".") or type(error).__name__
            raise SpaceError(f"{path} is no {kind}: {reason}.", field=path) from error
        known[number] = (space, budget.weight - before)
        return space

    return read(data, name, 0)


class _Form(Protocol):
    """How spaces of one class are written and read."""

    def write(self, space: Any, path: str, child: _Write) -> dict[str, Any]:
        """Return the fields beside ``type``."""

    def read(self, fields: Fields, budget: Budget, child: _Read) -> gymnasium.Space[Any]:
        """Make the space; children are read in the order in which `write` wrote them."""


class _BoxForm:
    def write(self, space: spaces.Box, path: str, child: _Write) -> dict[str, Any]:
        data: dict[str, Any] = {
            "shape": [int(size) for size in space.shape],
            "dtype": dtype_name(space.dtype, path),
            "low": pack_array(space.low),
            "high": pack_array(space.high),
        }
        # An integer Box made with infinite bounds holds the dtype's limits and remembers apart
        # that they are none: it samples from another distribution then.
        for key, bounded, finite in (
            ("bounded_below", space.bounded_below, space.low > -np.inf),
            ("bounded_above", space.bounded_above, space.high < np.inf),
        ):
            if not np.array_equal(bounded, finite):
                data[key] = pack_array(np.asarray(bounded))
        return data

    def read(self, fields: Fields, budget: Budget, child: _Read) -> spaces.Box:
        shape, dtype = fields.shape("shape"), fields.dtype("dtype")
        flag = np.dtype(np.bool_)
        return make_box(
            fields.array("low", shape, dtype, budget),
            fields.array("high", shape, dtype, budget),
            shape,
            dtype,
            **{
                key: fields.array(key, shape, flag, budget)
                for key in ("bounded_below", "bounded_above")
                if key in fields.data
            },
        )


class _DiscreteForm:
    def write(self, space: spaces.Discrete[Any], path: str, child: _Write) -> dict[str, Any]:
        return {
            "n": int(space.n),
            "start": int(space.start),
            "dtype": dtype_name(space.dtype, path),
        }

    def read(self, fields: Fields, budget: Budget, child: _Read) -> spaces.Discrete[Any]:
        return spaces.Discrete(
            fields.integer("n"), start=fields.integer("start"), dtype=fields.dtype("dtype", "iu")
        )


class _MultiBinaryForm:
    def write(self, space: spaces.MultiBinary, path: str, child: _Write) -> dict[str, Any]:
        # `MultiBinary(3)` and `MultiBinary([3])` are not equal.
        return {"n": [int(size) for size in space.n] if isinstance(space.n, tuple) else space.n}

    def read(self, fields: Fields, budget: Budget, child: _Read) -> spaces.MultiBinary:
        n = fields.integer("n") if type(fields.get("n")) is int else fields.shape("n")
        # Nothing of that size is made here, only where a stacked Sequence makes a Box of it.
        budget.hold(2 * math.prod(n if isinstance(n, tuple) else (max(n, 0),)))
        return spaces.MultiBinary(n)


class _MultiDiscreteForm:
    def write(self, space: spaces.MultiDiscrete[Any], path: str, child: _Write) -> dict[str, Any]:
        return {
            "shape": [int(size) for size in space.shape],
            "dtype": dtype_name(space.dtype, path),
            "nvec": pack_array(space.nvec),
            "start": pack_array(space.start),
        }

    def read(self, fields: Fields, budget: Budget, child: _Read) -> spaces.MultiDiscrete[Any]:
        shape, dtype = fields.shape("shape"), fields.dtype("dtype", "iu")
        nvec, start = (fields.array(key, shape, dtype, budget) for key in ("nvec", "start"))
        return spaces.MultiDiscrete(
            np.broadcast_to(nvec, shape), dtype=dtype, start=np.broadcast_to(start, shape)
        )


class _TextForm:
    def write(self, space: spaces.Text, path: str, child: _Write) -> dict[str, Any]:
        # In order, since samples draw positions in it; `characters` would be sorted.
        charset = space.character_list
        for character in charset:
            if len(character) != 1:
                raise SpaceError(
                    f"{path} has {character!r} in its charset, expected single characters.",
                    field=path,
                )
        return {
            "min_length": space.min_length,
            "max_length": space.max_length,
            "charset": "".join(charset),
        }

    def read(self, fields: Fields, budget: Budget, child: _Read) -> spaces.Text:
        charset = fields.text("charset")
        budget.hold(256 * len(charset))
        return spaces.Text(
            fields.integer("max_length"), min_length=fields.integer("min_length"), charset=charset
        )


class _DictForm:
    def write(self, space: spaces.Dict[Any], path: str, child: _Write) -> dict[str, Any]:
        for key in space.spaces:
            if type(key) not in (str, int):
                raise SpaceError(
                    f"{path} has the key {key!r}, a {type(key).__name__}, which cannot be sent.",
                    field=path,
                    hint="Use strings or integers.",
                )
        return {
            "sort_keys": bool(getattr(space, "sort_keys", True)),
            # Pairs, because mappings of other languages keep no order.
            "spaces": [
                [key, child(inner, f"{path}[{key!r}]")] for key, inner in space.spaces.items()
            ],
        }

    def read(self, fields: Fields, budget: Budget, child: _Read) -> spaces.Dict[Any]:
        inner: dict[Any, gymnasium.Space[Any]] = {}
        for pair in fields.items("spaces"):
            if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                fields.fail("spaces", "holds something other than pairs of key and space")
            key = pair[0]
            if type(key) not in (str, int) or key in inner:
                fields.fail("spaces", "needs a key for each space: a string or integer, once")
            inner[key] = child(pair[1], f"{fields.path}[{key!r}]")
        return make_dict(list(inner.items()), sort_keys=fields.flag("sort_keys"))


class _TupleForm:
    def __init__(self, make: Callable[[list[gymnasium.Space[Any]]], gymnasium.Space[Any]]) -> None:
        self._make = make

    def write(self, space: Any, path: str, child: _Write) -> dict[str, Any]:
        return {"spaces": [child(inner, f"{path}[{i}]") for i, inner in enumerate(space.spaces)]}

    def read(self, fields: Fields, budget: Budget, child: _Read) -> gymnasium.Space[Any]:
        return self._make(
            [child(inner, f"{fields.path}[{i}]") for i, inner in enumerate(fields.items("spaces"))]
        )


class _SequenceForm:
    def write(self, space: spaces.Sequence, path: str, child: _Write) -> dict[str, Any]:
        return {
            "space": child(space.feature_space, f"{path}.feature_space"),
            "stack": bool(space.stack),
        }

    def read(self, fields: Fields, budget: Budget, child: _Read) -> spaces.Sequence:
        before = budget.weight
        inner = child(fields.get("space"), f"{fields.path}.feature_space")
        stack = fields.flag("stack")
        if stack:  # Gymnasium makes a batched copy
            budget.grow(budget.weight - before, fields.path)
        return spaces.Sequence(inner, stack=stack)


class _GraphForm:
    def write(self, space: spaces.Graph, path: str, child: _Write) -> dict[str, Any]:
        edges = space.edge_space
        return {
            "node_space": child(space.node_space, f"{path}.node_space"),
            "edge_space": None if edges is None else child(edges, f"{path}.edge_space"),
        }

    def read(self, fields: Fields, budget: Budget, child: _Read) -> spaces.Graph:
        before = budget.weight
        nodes = child(fields.get("node_space"), f"{fields.path}.node_space")
        edges = fields.get("edge_space")
        if edges is not None:
            edges = child(edges, f"{fields.path}.edge_space")
        budget.grow(budget.weight - before, fields.path)  # batched copies, as above
        return spaces.Graph(nodes, edges)


_FORMS: dict[type[gymnasium.Space[Any]], _Form] = {
    spaces.Box: _BoxForm(),
    spaces.Discrete: _DiscreteForm(),
    spaces.MultiBinary: _MultiBinaryForm(),
    spaces.MultiDiscrete: _MultiDiscreteForm(),
    spaces.Text: _TextForm(),
    spaces.Dict: _DictForm(),
    spaces.Tuple: _TupleForm(spaces.Tuple),
    spaces.Sequence: _SequenceForm(),
    spaces.Graph: _GraphForm(),
    spaces.OneOf: _TupleForm(spaces.OneOf),
}
_FORMS_BY_NAME = {cls.__name__: form for cls, form in _FORMS.items()}


def _check_depth(depth: int, path: str) -> None:
    if depth >= _MAX_DEPTH:
        raise SpaceError(f"{path} is nested more than {_MAX_DEPTH} spaces deep.", field=path)
