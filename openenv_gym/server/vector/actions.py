"""Batches of actions, taken apart and checked before any sub-environment moves."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate

from openenv_gym.errors import InvalidActionError
from openenv_gym.spaces.actions import check_hosted_action


__all__ = ["ActionReader"]

# A batch that is right as a whole gives its actions; None: look at each of them.
_Split = Callable[[Any, int], "list[Any] | None"]

# Kinds of numbers that an environment can make sense of where its Box has a dtype of this kind.
_CONVERTIBLE = {"f": "fiub", "i": "iub", "u": "iub", "b": "b"}


class ActionReader:
    """Takes batches of actions apart.

    Args:
        space: Space of a single action.
        first: Added to the numbers of sub-environments in errors.
    """

    def __init__(self, space: gymnasium.Space[Any], *, first: int = 0) -> None:
        self._space = space
        self._first = first
        self._split: _Split = _make_split(space)

    @functools.cached_property
    def _batched(self) -> gymnasium.Space[Any]:
        return batch_space(self._space, 1)  # tells `iterate` how batches are built, not how long

    def read(
        self,
        actions: Any,
        indices: Sequence[int],
        ignored: Sequence[bool] | None = None,
    ) -> list[Any]:
        """Return the actions one by one.

        Args:
            actions: The batch.
            indices: Whose they are.
            ignored: By index, sub-environments that will not look at theirs.

        Raises:
            InvalidActionError: There are more or fewer actions than sub-environments, or an action
                is not in the space; ``data["index"]`` says whose.
        """
        count = len(indices)
        try:
            found = self._split(actions, count)
        except (AttributeError, LookupError, TypeError, ValueError):
            found = None
        return self._look(actions, indices, ignored) if found is None else found

    def _look(
        self, actions: Any, indices: Sequence[int], ignored: Sequence[bool] | None
    ) -> list[Any]:
        try:
            found = list(iterate(self._batched, actions))
        except Exception as error:
            raise InvalidActionError(
                f"Expected a batch of {len(indices)} actions in {self._space}, got "
                f"{_show(actions)}.",
                field="actions",
                hint="Valid batches are those of `env.action_space`.",
            ) from error
        if len(found) != len(indices):
            raise InvalidActionError(
                f"Expected {len(indices)} actions, one for each sub-environment, got {len(found)}.",
                field="actions",
            )
        refused: dict[int, InvalidActionError] = {}
        for index, action in zip(indices, found, strict=True):
            if ignored is not None and ignored[index]:
                continue
            number = index + self._first
            try:
                check_hosted_action(self._space, action, f"actions[{number}]")
            except InvalidActionError as error:
                refused[number] = error
        if refused:
            index, last = refused.popitem()
            last.data.update(index=index, indices=[*refused, index])
            raise last
        return found


def _make_split(space: gymnasium.Space[Any]) -> _Split:
    kind = type(space)
    if isinstance(space, spaces.Discrete) and kind is spaces.Discrete:
        return _split_discrete(space)
    if isinstance(space, spaces.Box) and kind is spaces.Box:
        return _split_box(space)
    if isinstance(space, spaces.MultiDiscrete) and kind is spaces.MultiDiscrete:
        low = space.start
        return _split_integers(space, low, low + space.nvec - 1)
    if isinstance(space, spaces.MultiBinary) and kind is spaces.MultiBinary:
        return _split_integers(space, 0, 1)
    if isinstance(space, spaces.Dict) and space.spaces:
        return _split_dict({key: _make_split(space.spaces[key]) for key in _batch_order(space)})
    if isinstance(space, spaces.Tuple) and space.spaces:
        return _split_tuple([_make_split(inner) for inner in space.spaces])
    return lambda actions, count: None


def _batch_order(space: spaces.Dict) -> list[Any]:
    """Return the keys in the order in which batches have them, which may be another one."""
    plain = copy.copy(space)
    plain.spaces = dict.fromkeys(space.spaces, spaces.Discrete(1))  # others take time to batch
    batched = batch_space(plain, 1)
    assert isinstance(batched, spaces.Dict)
    return list(batched.spaces)


def _split_discrete(space: spaces.Discrete[Any]) -> _Split:
    first, last = int(space.start), int(space.start) + int(space.n) - 1

    def split(actions: Any, count: int) -> list[Any] | None:
        if actions.dtype.kind not in "iu" or actions.shape != (count,):
            return None
        # Those of Python's integers are faster than NumPy's for hundreds of them. (Environments get
        # NumPy's, as from Gymnasium's vector environments; most spaces find those faster to check.)
        found: list[int] = actions.tolist()
        if found and (min(found) < first or max(found) > last):
            return None
        return list(actions)

    return split


def _split_box(space: spaces.Box) -> _Split:
    kinds = _CONVERTIBLE.get(space.dtype.kind, "")
    shape = space.shape

    def split(actions: Any, count: int) -> list[Any] | None:
        if actions.shape != (count, *shape) or actions.dtype.kind not in kinds:
            return None
        return list(actions)

    return split


def _split_integers(space: gymnasium.Space[Any], low: Any, high: Any) -> _Split:
    dtype, shape = space.dtype, tuple(space.shape or ())

    def split(actions: Any, count: int) -> list[Any] | None:
        if actions.dtype != dtype or actions.shape != (count, *shape):
            return None
        if not ((actions >= low) & (actions <= high)).all():
            return None
        return list(actions)

    return split


def _split_dict(parts: dict[Any, _Split]) -> _Split:
    keys = list(parts)

    def split(actions: Any, count: int) -> list[Any] | None:
        if type(actions) is not dict or actions.keys() != parts.keys():
            return None
        columns = []
        for key, part in parts.items():
            column = part(actions[key], count)
            if column is None:
                return None
            columns.append(column)
        return [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)]

    return split


def _split_tuple(parts: list[_Split]) -> _Split:
    def split(actions: Any, count: int) -> list[Any] | None:
        if type(actions) not in (tuple, list) or len(actions) != len(parts):
            return None
        columns = []
        for part, column in zip(parts, actions, strict=True):
            found = part(column, count)
            if found is None:
                return None
            columns.append(found)
        return list(zip(*columns, strict=True))

    return split


def _show(actions: Any) -> str:
    if isinstance(actions, np.ndarray):
        return f"an array of dtype {actions.dtype} and shape {actions.shape}"
    return f"{actions!r:.80} ({type(actions).__name__})"
