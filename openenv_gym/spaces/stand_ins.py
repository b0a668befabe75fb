"""Spaces of foreign classes, and which of Gymnasium's own spaces stand for them on the way.

What a class of one's own adds is unknown on the other side. So a space that cannot be carried is
carried as one that can: as what `register_space` says of its class; as the class of Gymnasium's
that it derives from, to the bit, where it neither draws nor checks by itself; and, for what is
only observed, by its dtype. What stands for something else is told (``stand_ins`` in WELCOME).
"""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces

from openenv_gym.errors import SpaceError
from openenv_gym.spaces.compat import make_box, make_dict
from openenv_gym.spaces.data import space_from_data, space_to_data


__all__ = ["carried_space", "register_space"]

SpaceT = TypeVar("SpaceT", bound=gymnasium.Space[Any])

_MAX_TEXT = 4096  # as a `str` of a model has it
_DECIDING = ("sample", "contains", "__contains__", "seed", "np_random")
"""What a class has to leave alone for its base to draw and to check the same."""
_CONTAINERS = (spaces.Dict, spaces.Tuple, spaces.OneOf, spaces.Sequence, spaces.Graph)
_LEAVES = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete, spaces.Text)

_registered: dict[type[Any], Callable[[Any], gymnasium.Space[Any]]] = {}


def register_space(cls: type[SpaceT], stand_in: Callable[[SpaceT], gymnasium.Space[Any]]) -> None:
    """Say which space stands for those of a class where an environment is served.

    It belongs into the module that registers the environment, which a server imports::

        register_space(MissionSpace, lambda space: Text(200, min_length=0, charset=printable))

    Clients draw actions from that space, and check observations by it.

    Args:
        cls: The class; the same goes for classes that derive from it.
        stand_in: Takes a space of that class and returns one of Gymnasium's own classes, or one
            that holds such spaces. Samples of one have to be samples of the other.
    """
    _registered[cls] = stand_in


def carried_space(
    space: gymnasium.Space[Any], name: str, *, observed: bool
) -> tuple[gymnasium.Space[Any], dict[str, str]]:
    """Return the space that is carried for a space.

    Args:
        space: Any space.
        name: What errors call it.
        observed: Nobody draws from it, so that a space may stand for it that has more in it.

    Returns:
        The space itself, where it can be carried as it is, or else one that stands for it; and of
        each space inside that another one stands for, its path and its class.

    Raises:
        SpaceError: Nothing stands for it; `field` is its path.
    """
    told: dict[str, str] = {}
    known: dict[int, gymnasium.Space[Any]] = {}

    def carry(inner: gymnasium.Space[Any], path: str) -> gymnasium.Space[Any]:
        if id(inner) not in known:  # the same object twice is one space, also afterwards
            known[id(inner)] = find(inner, path)
        return known[id(inner)]

    def find(inner: gymnasium.Space[Any], path: str) -> gymnasium.Space[Any]:
        if (made := _of_registered(inner, path)) is not None:
            told[path] = _name(type(inner))
            return made
        base = next((cls for cls in (*_CONTAINERS, *_LEAVES) if isinstance(inner, cls)), None)
        if type(inner) is not base:
            told[path] = _name(type(inner))
        if base is None:
            return _by_dtype(inner, path, observed=observed)
        if not observed and not _is_alike(type(inner), base):
            raise _refusal(inner, path, f"which draws or checks by other rules than {_name(base)}")
        if base in _CONTAINERS:
            rebuilt: gymnasium.Space[Any] = _rebuilt(inner, base, path, carry)
            return rebuilt
        return inner if type(inner) is base else _as_base(inner, base, path)

    return carry(space, name), told


def _of_registered(space: gymnasium.Space[Any], path: str) -> gymnasium.Space[Any] | None:
    for cls in type(space).__mro__:
        if cls in _registered:
            made = _registered[cls](space)
            if not isinstance(made, gymnasium.Space):
                raise SpaceError(
                    f"{path}: what stands for a {_name(cls)} is {made!r:.80}, and no space.",
                    field=path,
                    hint="Have the function that register_space got return a space.",
                )
            space_to_data(made, path)  # which says what cannot be carried of it
            return made
    return None


def _is_alike(cls: type[Any], base: type[Any]) -> bool:
    return all(getattr(cls, name, None) is getattr(base, name, None) for name in _DECIDING)


def _as_base(space: Any, base: type[Any], path: str) -> gymnasium.Space[Any]:
    """Return a space of the class that a space derives from."""
    plain = object.__new__(base)
    plain.__dict__.update(vars(space))
    return space_from_data(space_to_data(plain, path), path)


def _rebuilt(space: Any, base: type[Any], path: str, carry: Callable[..., Any]) -> Any:
    """Return a space with what is carried of those inside; itself, where that is all the same."""
    if base is spaces.Dict:
        pairs = [(key, carry(inner, f"{path}[{key!r}]")) for key, inner in space.spaces.items()]
        if type(space) is base and all(space.spaces[key] is inner for key, inner in pairs):
            return space
        return make_dict(pairs, sort_keys=bool(getattr(space, "sort_keys", True)))
    if base in (spaces.Tuple, spaces.OneOf):
        inside = [carry(inner, f"{path}[{i}]") for i, inner in enumerate(space.spaces)]
        same = all(one is other for one, other in zip(inside, space.spaces, strict=True))
        return space if type(space) is base and same else base(inside)
    if base is spaces.Sequence:
        inner = carry(space.feature_space, f"{path}.feature_space")
        if type(space) is base and inner is space.feature_space:
            return space
        return spaces.Sequence(inner, stack=bool(space.stack))
    nodes = carry(space.node_space, f"{path}.node_space")
    edges = space.edge_space and carry(space.edge_space, f"{path}.edge_space")
    if type(space) is base and nodes is space.node_space and edges is space.edge_space:
        return space
    return spaces.Graph(nodes, edges)


def _by_dtype(space: gymnasium.Space[Any], path: str, *, observed: bool) -> gymnasium.Space[Any]:
    """Return the space of everything that has the dtype and the shape of a space."""
    if not observed:
        raise _refusal(space, path, "from which a client could not draw")
    shape, dtype = space.shape, space.dtype
    if dtype is not None and dtype.kind == "U" and shape in (None, ()):
        return spaces.Text(_MAX_TEXT, min_length=0, charset=string.printable)
    if dtype is None or shape is None or dtype.kind not in "biuf":
        raise _refusal(space, path, "which says nothing of its dtype and shape")
    if dtype.kind == "f":
        low, high = np.array(-np.inf, dtype), np.array(np.inf, dtype)
    elif dtype.kind == "b":
        low, high = np.array(False), np.array(True)
    else:
        low, high = (np.array(limit, dtype) for limit in _limits(dtype))
    return make_box(low, high, shape, dtype)


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _refusal(space: gymnasium.Space[Any], path: str, why: str) -> SpaceError:
    name = type(space).__name__
    return SpaceError(
        f"{path} is a {_name(type(space))}, {why}. It cannot be carried as it is.",
        field=path,
        hint=f"Say which space stands for it: openenv_gym.spaces.register_space({name}, lambda "
        "space: ...), in the module that registers the environment; or use a space of Gymnasium's "
        "own classes.",
    )


def _name(cls: type[Any]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
