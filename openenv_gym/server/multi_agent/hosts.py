"""An environment with several agents, for one client (docs/protocol.md, section 4.8)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from types import MethodType
from typing import Any

import numpy as np

from openenv_gym import errors
from openenv_gym.server import attributes
from openenv_gym.server.host import describe_metadata
from openenv_gym.server.multi_agent.hosting import describe_class
from openenv_gym.server.multi_agent.options import AEC, PARALLEL
from openenv_gym.server.operations import find_operation, run_operation
from openenv_gym.spaces import space_to_data
from openenv_gym.spaces.stand_ins import carried_space


__all__ = ["NO_SCHEMAS", "AECHost", "ParallelHost", "describe_agents", "read_actions", "read_reset"]

NO_SCHEMAS: dict[str, Any] = {"action": {}, "observation": {}, "state": {}}

# pygame's pictures: two environments that draw at once may show parts of each other.
_drawing = threading.Lock()


class _Host:
    """What both forms have in common.

    Args:
        env: An environment in the form of `api`.
    """

    api: str
    operations: Mapping[str, Callable[..., Any]]

    def __init__(self, env: Any) -> None:
        self.env = env
        self._started = False
        self._told: set[Hashable] = set()
        self._new: dict[Hashable, Any] = {}

    def describe(self) -> dict[str, Any]:
        """Return the part of the map ``environment`` of WELCOME that the environment decides.

        Raises:
            SpaceError: A space cannot be carried.
        """
        described = describe_agents(self.env, self.api)
        self._told.update(described["multi_agent"]["spaces"])
        return described

    def schemas(self) -> dict[str, Any]:
        """Return JSON Schemas of action, observation and state: there are none."""
        return NO_SCHEMAS

    def execute(self, op: str, args: list[Any], rng: Any = None) -> tuple[Any, int]:
        """Run one operation.

        Args:
            op: Name of the operation.
            args: Its arguments, as the protocol has them.
            rng: Ignored: PettingZoo's environments have no generator that is known.

        Returns:
            The value, and the nanoseconds that it took.

        Raises:
            ProtocolError: No such operation, or arguments of the wrong form.
            ResetNeededError: There was no reset.
            Exception: Whatever the environment raises.
        """
        self._new = {}
        return run_operation(MethodType(find_operation(self.operations, op), self), op, args)

    def extras(self, op: str) -> dict[str, Any]:
        """Return the spaces of agents that the client hears of for the first time."""
        return {"spaces": self._new} if self._new else {}

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _begin(self) -> None:
        """Note that an episode has begun, in which agents may have other spaces than before."""
        self._started = True
        if getattr(self.env, "possible_agents", None) is None:
            self._told.clear()

    def _tell(self, agents: Iterable[Hashable]) -> None:
        for agent in agents:
            if agent not in self._told:
                self._told.add(agent)
                self._new[agent] = _spaces_of(self.env, agent)

    def _need_reset(self, op: str) -> None:
        if not self._started:
            raise errors.ResetNeededError(
                f"Cannot call {op} before reset.", hint="Call reset() first."
            )

    def _render(self) -> Any:
        self._need_reset("render")
        with _drawing:
            return self.env.render()

    def _state(self) -> Any:
        self._need_reset("state")
        return self.env.state()

    def _get(self, path: str) -> list[Any]:
        return attributes.describe(attributes.resolve(self.env.unwrapped, path))

    def _set(self, path: str, value: Any) -> None:
        attributes.assign(self.env.unwrapped, path, value)

    def _call(self, path: str, args: Any, kwargs: Any) -> Any:
        if not isinstance(args, list) or not isinstance(kwargs, dict):
            raise errors.ProtocolError("Expected [path, list, map].", field="args")
        return attributes.resolve(self.env.unwrapped, path)(*args, **kwargs)

    def _ping(self) -> None:
        """Do nothing, in its turn."""


# Not bound to a host, which would hold itself then, see `EnvironmentHost`.
_COMMON: dict[str, Callable[..., Any]] = {
    "render": _Host._render,
    "state": _Host._state,
    "get": _Host._get,
    "set": _Host._set,
    "call": _Host._call,
    "ping": _Host._ping,
}


class AECHost(_Host):
    """Agents that act in turn: each reply has all that `last()` and its like return."""

    api = AEC

    def _reset(self, seed: Any = None, options: Any = None) -> list[Any]:
        self.env.reset(**read_reset(seed, options))
        self._begin()
        return self._turn()

    def _step(self, action: Any) -> list[Any]:
        self._need_reset("step")
        if not self.env.agents:
            raise errors.ResetNeededError(
                "The episode is over: no agents are left.", hint="Call reset() first."
            )
        self.env.step(action)
        return self._turn()

    def _look(self, agent: Any) -> Any:
        self._need_reset("look")
        return self.env.observe(agent)

    def _turn(self) -> list[Any]:
        env = self.env
        agents = list(env.agents)
        selected = env.agent_selection
        self._tell(agents)
        return [
            agents,
            selected,
            env.observe(selected) if selected in agents else None,
            dict(env.rewards),
            dict(env._cumulative_rewards),
            dict(env.terminations),
            dict(env.truncations),
            dict(env.infos),
        ]

    operations = {**_COMMON, "reset": _reset, "step": _step, "look": _look}


class ParallelHost(_Host):
    """Agents that act at once."""

    api = PARALLEL

    def _reset(self, seed: Any = None, options: Any = None) -> list[Any]:
        observations, infos = self.env.reset(**read_reset(seed, options))
        self._begin()
        agents = list(self.env.agents)
        self._tell(agents)
        return [agents, observations, infos]

    def _step(self, actions: Any) -> list[Any]:
        self._need_reset("step")
        outcome = self.env.step(read_actions(actions))
        agents = list(self.env.agents)
        self._tell(agents)
        if len(outcome) == 4:  # PettingZoo's turn-based wrapper, when nobody is left
            outcome = (*outcome, {})
        return [agents, *outcome]

    operations = {**_COMMON, "reset": _reset, "step": _step}


def read_reset(seed: Any, options: Any) -> dict[str, Any]:
    """Return the arguments of a reset.

    Raises:
        ProtocolError: They have the wrong form.
    """
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer))):
        raise errors.ProtocolError(f"Expected an integer or nil, got {seed!r:.40}.", field="seed")
    if options is not None and not isinstance(options, dict):
        raise errors.ProtocolError(f"Expected a map or nil, got {options!r:.40}.", field="options")
    return {"seed": None if seed is None else int(seed), "options": options}


def read_actions(actions: Any) -> dict[Any, Any]:
    """Return the actions of several agents.

    Raises:
        ProtocolError: They are no map.
    """
    if not isinstance(actions, dict):
        raise errors.ProtocolError(
            f"Expected a map of actions, got {actions!r:.40}.", field="actions"
        )
    return actions


def describe_agents(env: Any, api: str, agents: Iterable[Hashable] | None = None) -> dict[str, Any]:
    """Return what WELCOME says of an environment with several agents.

    Args:
        env: The environment.
        api: Its form.
        agents: Those whose spaces are told; by default all that may occur.

    Raises:
        SpaceError: A space cannot be carried.
    """
    possible = getattr(env, "possible_agents", None)
    state_space = getattr(env, "state_space", None) if agents is None else None
    told = (possible or ()) if agents is None else agents
    return {
        "name": describe_class(env),
        "action_space": {},
        "observation_space": {},
        "metadata": describe_metadata(env.metadata),
        "render_mode": getattr(env, "render_mode", None) if agents is None else None,
        "observables": [],
        "rng": None,
        "time_limit": None,
        "multi_agent": {
            "api": api,
            "possible_agents": None if possible is None else list(possible),
            "spaces": {agent: _spaces_of(env, agent) for agent in told},
            "state_space": None if state_space is None else space_to_data(state_space),
        },
    }


def _spaces_of(env: Any, agent: Hashable) -> list[dict[str, Any]]:
    seen, _ = carried_space(env.observation_space(agent), "observation_space", observed=True)
    action, _ = carried_space(env.action_space(agent), "action_space", observed=False)
    return [space_to_data(seen), space_to_data(action)]
