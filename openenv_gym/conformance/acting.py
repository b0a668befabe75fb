"""Legal actions by chance, of an environment on a server, which is asked which ones are."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from openenv_gym.errors import OpenEnvGymError
from openenv_gym.policies import Chance
from openenv_gym.spaces import sample_from_json


__all__ = ["LegalChance", "with_legal_steps"]


class LegalChance:
    """Draws actions of an environment: what its infos, or it itself when asked, say is legal.

    Args:
        env: The environment.
        seed: Equal seeds draw equal actions, as long as equal ones are legal.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], seed: int) -> None:
        self._session: Any = getattr(env.unwrapped, "openenv", None)
        self._space = copy.deepcopy(env.action_space)
        self._chance = Chance(self._space, 1, self._described())
        self._tells_legal = True
        self.seed(seed)

    @property
    def calls_tools(self) -> bool:
        """Whether actions are calls of tools."""
        return self._chance.calls_tools

    def seed(self, seed: int) -> None:
        """Begin anew with another seed."""
        self._chance.seed(0, seed)
        self._random = np.random.default_rng(seed)

    def act(self, info: dict[str, Any]) -> Any:
        """Return an action.

        Args:
            info: What the last reset or step told.
        """
        mask = info.get("action_mask")
        masked = mask is not None and isinstance(self._space, spaces.Discrete)
        if masked or self.calls_tools or not self._tells_legal:
            return self._chance.draw(0, mask)
        legal = self._legal()
        return self._chance.draw(0) if legal is None else legal

    def _described(self) -> dict[str, Any]:
        if self._session is None:
            return {}
        try:
            described: dict[str, Any] = self._session.describe_actions()
            return described
        except (OpenEnvGymError, NotImplementedError):  # a server of another kind
            return {}

    def _legal(self) -> Any:
        """Return one of the actions that are legal now; None where nobody says which are."""
        described = self._described()
        listed = described.get("legal")
        self._tells_legal = listed is not None
        if not listed:
            return None
        chosen = listed[int(self._random.integers(len(listed)))]
        kinds = described.get("actions") or [{}]
        try:
            sample = _sample(self._space, chosen, kinds[0])
            return sample if self._space.contains(sample) else None
        except (OpenEnvGymError, AttributeError, LookupError, TypeError, ValueError):
            return None  # whatever an environment calls an action


def _sample(space: gymnasium.Space[Any], action: Any, kind: Mapping[str, Any]) -> Any:
    """Return the sample that an action is.

    Args:
        space: The space of actions: a `Dict` of the fields, or the space of the only one.
        action: The action by field, in the words of the model.
        kind: What is told of this kind of actions; see ``describe_actions``.

    Raises:
        Exception: The action is no such one.
    """
    told = kind.get("fields") or {}
    names = list(told) or list(action)
    properties = (kind.get("schema") or {}).get("properties") or {}
    values = {
        name: action[name] if name in action else properties[name]["default"] for name in names
    }
    # A single field may be a Dict of its own.
    keyed = isinstance(space, spaces.Dict) and {str(key) for key in space.spaces} == set(names)
    if keyed:
        return _number(space, values, {"fields": told})
    (name,) = names
    return _number(space, values[name], told.get(name) or {})


def _number(space: gymnasium.Space[Any], value: Any, told: Mapping[str, Any]) -> Any:
    """Return a value as the space has it: the numbers of labels, of truth values, of all inside."""
    if isinstance(space, spaces.Dict):
        inner = told.get("fields") or {}
        return {
            key: _number(each, value[str(key)], inner.get(str(key)) or {})
            for key, each in space.spaces.items()
        }
    labels = told.get("labels") or (told.get("items") or {}).get("labels") or ()
    if isinstance(space, spaces.Discrete):
        (number,) = _numbered([value], labels, int(space.start))
        return space.dtype.type(int(number))
    if isinstance(value, list) and isinstance(space, (spaces.MultiDiscrete, spaces.Sequence)):
        value = _numbered(value, labels, 0)
    return sample_from_json(space, value)


def _numbered(values: list[Any], labels: Sequence[Any], first: int) -> list[Any]:
    """Return values with those that are labels as their numbers; 1 is a label, and True is none."""
    numbers = {(type(label), label): first + index for index, label in enumerate(labels)}
    return [
        _numbered(value, labels, first)
        if isinstance(value, list)
        else numbers.get((type(value), value), value)
        for value in values
    ]


def with_legal_steps(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Return an environment that takes every text of its space, where actions are calls of tools.

    Whoever checks an environment by drawing from its action space would otherwise be refused.
    """
    return _Called(env) if LegalChance(env, 0).calls_tools else env


class _Called(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Makes a call of each text; equal texts are equal calls."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._chance = LegalChance(env, 0)

    def step(self, action: Any) -> Any:
        self._chance.seed(zlib.crc32(str(action).encode()))
        return self.env.step(self._chance.act({}))
