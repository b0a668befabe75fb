"""Several parallel environments of one session, moved together (docs/protocol.md, section 4.8)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from types import MethodType
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from openenv_gym import errors
from openenv_gym.server.multi_agent.hosts import (
    NO_SCHEMAS,
    describe_agents,
    read_actions,
    read_reset,
)
from openenv_gym.server.multi_agent.options import PARALLEL
from openenv_gym.server.operations import find_operation, run_operation


__all__ = ["ParallelVectorHost"]


class ParallelVectorHost:
    """Steps all environments for one request; one whose agents are all gone resets in the next.

    Args:
        envs: Parallel environments that are alike.

    Raises:
        InvalidOptionError: They do not say which agents there may be, or are not alike.
    """

    def __init__(self, envs: Sequence[Any]) -> None:
        first = envs[0]
        agents = getattr(first, "possible_agents", None)
        if not agents:
            raise errors.InvalidOptionError(
                "num_envs: an environment without possible_agents cannot be vectorised.",
                field="num_envs",
            )
        self.envs = envs
        self._agents: list[Hashable] = list(agents)
        self._count = len(envs)
        self._spaces = {agent: first.observation_space(agent) for agent in self._agents}
        self._batched_actions = {
            agent: batch_space(first.action_space(agent), self._count) for agent in self._agents
        }
        # What stands in the row of an agent that is not there.
        self._nothing = {agent: _zero(space) for agent, space in self._spaces.items()}
        self._started = False
        for env in envs[1:]:
            if list(env.possible_agents) != self._agents or any(
                env.observation_space(agent) != self._spaces[agent] for agent in self._agents
            ):
                raise errors.InvalidOptionError(
                    "num_envs: the environments have different agents or spaces.", field="num_envs"
                )

    def describe(self) -> dict[str, Any]:
        """Return what WELCOME says: agents and spaces of one environment.

        Raises:
            SpaceError: A space cannot be carried.
        """
        described = describe_agents(self.envs[0], PARALLEL)
        described["multi_agent"]["num_envs"] = self._count
        return described

    def schemas(self) -> dict[str, Any]:
        """Return JSON Schemas of action, observation and state: there are none."""
        return NO_SCHEMAS

    def execute(self, op: str, args: list[Any], rng: Any = None) -> tuple[Any, int]:
        """Run one operation; see `EnvironmentHost.execute`."""
        return run_operation(MethodType(find_operation(_OPERATIONS, op), self), op, args)

    def extras(self, op: str) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def close(self) -> None:
        """Close all environments."""
        for env in self.envs:
            env.close()

    # -- operations ---------------------------------------------------------------------------

    def _reset(self, seeds: Any = None, options: Any = None) -> list[Any]:
        if seeds is None:
            seeds = [None] * self._count
        if not isinstance(seeds, (list, tuple)) or len(seeds) != self._count:
            raise errors.ProtocolError(
                f"Expected nil or {self._count} seeds, got {seeds!r:.40}.", field="seeds"
            )
        read = [read_reset(seed, options) for seed in seeds]
        results = [env.reset(**each) for env, each in zip(self.envs, read, strict=True)]
        self._started = True
        return [
            self._alive(),
            self._stack([observations for observations, _ in results]),
            _without_empty([infos for _, infos in results]),
        ]

    def _step(self, actions: Any) -> list[Any]:
        if not self._started:
            raise errors.ResetNeededError(
                "Cannot call step before reset.", hint="Call reset() first."
            )
        rows = self._split(read_actions(actions))
        results = [self._step_one(index, env, rows) for index, env in enumerate(self.envs)]
        observations, rewards, terminations, truncations, infos = zip(*results, strict=True)
        return [
            self._alive(),
            self._stack(observations),
            self._column(rewards, np.float64),
            self._column(terminations, np.bool_),
            self._column(truncations, np.bool_),
            _without_empty(infos),
        ]

    def _step_one(self, index: int, env: Any, rows: dict[Hashable, list[Any]]) -> Any:
        try:
            if not env.agents:
                observations, infos = env.reset()
                return observations, {}, {}, {}, infos
            return env.step({agent: rows[agent][index] for agent in env.agents})
        except Exception as error:
            data = {"type": type(error).__name__, "index": index}
            raise errors.EnvironmentFailedError(
                f"Environment {index}: {error}", data=data
            ) from error

    def _render(self) -> list[Any]:
        return [env.render() for env in self.envs]

    def _ping(self) -> None:
        """Do nothing."""

    # -- batches ------------------------------------------------------------------------------

    def _split(self, actions: dict[Any, Any]) -> dict[Hashable, list[Any]]:
        """Take the batches of actions apart.

        Raises:
            InvalidActionError: One is missing, or has the wrong number of rows.
        """
        rows = {}
        for agent in self._agents:
            try:
                rows[agent] = list(iterate(self._batched_actions[agent], actions[agent]))
            except (KeyError, TypeError, ValueError, IndexError) as error:
                raise errors.InvalidActionError(
                    f"Expected a batch of {self._count} actions of {agent!r:.60}: {error!r:.100}",
                    field="actions",
                ) from error
            if len(rows[agent]) != self._count:
                raise errors.InvalidActionError(
                    f"Expected {self._count} actions of {agent!r:.60}, got {len(rows[agent])}.",
                    field="actions",
                )
        return rows

    def _alive(self) -> dict[Hashable, Any]:
        return {
            agent: np.array([agent in env.agents for env in self.envs], np.bool_)
            for agent in self._agents
        }

    def _stack(self, observations: Sequence[dict[Hashable, Any]]) -> dict[Hashable, Any]:
        """Return a batch for each agent."""
        stacked = {}
        for agent, space in self._spaces.items():
            nothing = self._nothing[agent]
            found = [each.get(agent, nothing) for each in observations]
            empty: Any = create_empty_array(space, self._count)
            stacked[agent] = concatenate(space, found, empty)
        return stacked

    def _column(self, values: Sequence[dict[Hashable, Any]], dtype: Any) -> dict[Hashable, Any]:
        return {
            agent: np.array([each.get(agent, 0) for each in values], dtype)
            for agent in self._agents
        }


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "reset": ParallelVectorHost._reset,
    "step": ParallelVectorHost._step,
    "render": ParallelVectorHost._render,
    "ping": ParallelVectorHost._ping,
}


def _zero(space: spaces.Space[Any]) -> Any:
    """Return a value of the form of a space's samples, made of zeros."""
    return next(iter(iterate(batch_space(space, 1), create_empty_array(copy.copy(space), 1))))


def _without_empty(infos: Sequence[dict[Any, Any]]) -> dict[int, Any]:
    """Return the infos by environment, where any agent has one."""
    return {index: each for index, each in enumerate(infos) if any(each.values())}
