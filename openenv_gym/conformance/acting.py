"""Actions by chance, of those that an environment takes: what its space says is often too much.

Of a game most of the space is illegal, and of all texts almost none is the call of a tool. What an
environment tells of its actions (``describe_actions``, an ``action_mask`` in its infos) says more.
"""

from __future__ import annotations

import copy
import functools
import json
import zlib
from typing import Any

import gymnasium
import numpy as np

from openenv_gym.errors import OpenEnvGymError


__all__ = ["Chance", "with_legal_steps"]

_CALL = "ToolCallText"
"""Kind of action of an environment that has tools and nothing else."""
_TRIES = 20  # at drawing arguments that the tool's own model takes


class Chance:
    """Draws legal actions of an environment on a server.

    Args:
        env: The environment.
        seed: Equal seeds draw equal actions, as long as equal ones are legal.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], seed: int) -> None:
        self._session: Any = getattr(env.unwrapped, "openenv", None)
        self._space = copy.deepcopy(env.action_space)
        self._space.seed(seed)
        self._random = np.random.default_rng(seed)
        self._seed = seed
        self._tells_legal = True

    def act(self, info: dict[str, Any]) -> Any:
        """Return an action.

        Args:
            info: What the last reset or step told.
        """
        mask = info.get("action_mask")
        if mask is not None and isinstance(self._space, gymnasium.spaces.Discrete):
            mask = np.asarray(mask, dtype=np.int8)
            # Without a legal action (the episode is over) anything will do.
            return self._space.sample(mask=mask if mask.any() else None)
        if self.tools:
            return self._call()
        legal = self._legal() if self._tells_legal else None
        return self._space.sample() if legal is None else legal

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
        listed = self._described().get("legal")
        self._tells_legal = listed is not None
        if not listed:
            return None
        chosen = listed[int(self._random.integers(len(listed)))]
        values = [*chosen.values()] if isinstance(chosen, dict) else []
        if len(values) != 1:
            return None
        (value,) = values
        if isinstance(self._space, gymnasium.spaces.Discrete) and type(value) is int:
            value = self._space.dtype.type(value)
        return value if self._space.contains(value) else None

    @functools.cached_property
    def tools(self) -> list[tuple[str, Any]]:
        """Name and mapping of the arguments of each tool, where actions are calls of them."""
        from openenv_gym import Action
        from openenv_gym.spaces import ModelMapping, model_from_schema

        described = self._described()
        if _CALL not in [kind.get("name") for kind in described.get("actions", ())]:
            return []
        tools: list[tuple[str, Any]] = []
        for number, tool in enumerate(described.get("tools", ())):
            mapping = None
            if tool["input_schema"].get("properties"):
                try:
                    mapping = ModelMapping.of(model_from_schema(tool["input_schema"], Action))
                except OpenEnvGymError:  # an argument that no space is known for
                    continue
                mapping.space.seed(self._seed + number)
            tools.append((tool["name"], mapping))
        return tools

    def _call(self) -> str:
        name, mapping = self.tools[int(self._random.integers(len(self.tools)))]
        arguments = {} if mapping is None else _draw(mapping)
        return json.dumps({"tool_name": name, "arguments": arguments})


def with_legal_steps(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Return an environment that takes every text of its space, where actions are calls of tools.

    Whoever checks an environment by drawing from its action space would otherwise be refused.
    """
    return _Called(env) if Chance(env, 0).tools else env


class _Called(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Makes a call of each text; equal texts are equal calls."""

    def step(self, action: Any) -> Any:
        call = Chance(self.env, zlib.crc32(str(action).encode())).act({})
        return self.env.step(call)


def _draw(mapping: Any) -> dict[str, Any]:
    for _ in range(_TRIES):
        try:
            model = mapping.to_model(mapping.space.sample())
        except OpenEnvGymError:  # a rule that a space cannot say
            continue
        fields: dict[str, Any] = model.model_dump(mode="json", exclude={"metadata"})
        return fields
    return {}
