"""Chance as a policy: actions drawn from a space, of those that an environment takes.

Of a game most of the space is illegal, and of all texts almost none is the call of a tool. What an
environment tells of its actions (an ``action_mask`` in its infos, ``describe_actions``) says more.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from openenv_gym.errors import OpenEnvGymError
from openenv_gym.models import Action
from openenv_gym.spaces import ModelMapping, model_from_schema


__all__ = ["Chance", "describe_calls"]

_CALL = "ToolCallText"
"""Kind of action of an environment that has tools and nothing else."""
_TRIES = 20  # at drawing arguments that the tool's own model takes


class Chance:
    """Draws actions for several sub-environments, each with a generator of its own.

    So what is drawn for one does not depend on how many others there are.

    Args:
        space: Action space of one sub-environment.
        num_envs: How many there are.
        described: What the environment told of its actions (``describe_actions``). Where each of
            them is the call of a tool, calls are drawn.
    """

    def __init__(
        self,
        space: gymnasium.Space[Any],
        num_envs: int,
        described: Mapping[str, Any] | None = None,
    ) -> None:
        self._spaces = [copy.deepcopy(space) for _ in range(num_envs)]
        self._takes_mask = isinstance(space, gymnasium.spaces.Discrete)
        tools = _tools_of(described or {})
        self._calls = [_Calls(copy.deepcopy(tools)) for _ in range(num_envs)] if tools else None

    @property
    def calls_tools(self) -> bool:
        """Whether it draws calls of tools."""
        return self._calls is not None

    def seed(self, number: int, seed: int | None) -> None:
        """Seed the generator of one sub-environment; None: with what the system gives."""
        self._spaces[number].seed(seed)
        if self._calls is not None:
            self._calls[number].seed(seed)

    def draw(self, number: int, mask: Any = None) -> Any:
        """Return an action for one sub-environment.

        Args:
            number: Which one.
            mask: The ``action_mask`` of its info, of shape (n,): true where an action is legal;
                None where there is none. It counts in a `Discrete` space alone.
        """
        if self._calls is not None:
            return self._calls[number].draw()
        if mask is None or not self._takes_mask:
            return self._spaces[number].sample()
        mask = np.asarray(mask, dtype=np.int8)
        # Without a legal action (the episode is over) anything will do.
        return self._spaces[number].sample(mask=mask if mask.any() else None)


def describe_calls(envs: Any) -> dict[str, Any] | None:
    """Return what an environment tells of its actions, where they may be calls of tools.

    Args:
        envs: An environment or a vector environment, on a server or in this process.

    Returns:
        What ``describe_actions`` of it, or of the first sub-environment, returned; None where its
        actions are something else, or where it is a vector environment of Gymnasium's own.
    """
    base = envs.unwrapped
    if hasattr(base, "openenv"):  # one on a server
        told, ask = base.openenv.connection.environment, base.openenv.describe_actions
    elif hasattr(base, "described"):  # several
        # Nobody is asked who may have no answer: a failed call of a vector shows in its log.
        told, ask = base.described, lambda: base.call("describe_actions")[0]
    elif hasattr(getattr(base, "environment", None), "describe_actions"):  # in this process
        told, ask = None, base.environment.describe_actions
    else:
        return None
    if told is not None and told.get("schemas", {}).get("action", {}).get("title") != _CALL:
        return None
    try:
        described: dict[str, Any] = ask()
    except (NotImplementedError, OpenEnvGymError):  # a server of another kind
        return None
    return described


class _Calls:
    """Draws the JSON of calls.

    Args:
        tools: Name, and mapping of the arguments, of each; see `_tools_of`.
    """

    def __init__(self, tools: list[tuple[str, ModelMapping[Any] | None]]) -> None:
        self._tools = tools
        self._random = np.random.default_rng()

    def seed(self, seed: int | None) -> None:
        self._random = np.random.default_rng(seed)
        for number, (_, mapping) in enumerate(self._tools):
            if mapping is not None:
                mapping.space.seed(None if seed is None else seed + number)

    def draw(self) -> str:
        name, mapping = self._tools[int(self._random.integers(len(self._tools)))]
        arguments = {} if mapping is None else _arguments(mapping)
        return json.dumps({"tool_name": name, "arguments": arguments})


def _tools_of(described: Mapping[str, Any]) -> list[tuple[str, ModelMapping[Any] | None]]:
    """Return name and mapping of the arguments of each tool, where actions are calls of them."""
    if _CALL not in [kind.get("name") for kind in described.get("actions", ())]:
        return []
    tools: list[tuple[str, ModelMapping[Any] | None]] = []
    for tool in described.get("tools", ()):
        mapping = None
        if tool["input_schema"].get("properties"):
            try:
                mapping = ModelMapping.of(model_from_schema(tool["input_schema"], Action))
            except OpenEnvGymError:  # an argument that no space is known for
                continue
        tools.append((tool["name"], mapping))
    return tools


def _arguments(mapping: ModelMapping[Any]) -> dict[str, Any]:
    for _ in range(_TRIES):
        try:
            model = mapping.to_model(mapping.space.sample())
        except OpenEnvGymError:  # a rule that a space cannot say
            continue
        fields: dict[str, Any] = model.model_dump(mode="json", exclude={"metadata"})
        return fields
    return {}
