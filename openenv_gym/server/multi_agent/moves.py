"""How a shared game moves: agents in turn, or all at once; and what each of them is then told."""

from __future__ import annotations

import copy
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

from openenv_gym.errors import InvalidOptionError


__all__ = ["Moves", "Outcome", "moves_of"]


@dataclass
class Outcome:
    """What one agent is told when it is its turn, or its part of the game is over.

    It is a copy: the game goes on while it is being sent.
    """

    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]

    def __post_init__(self) -> None:
        self.observation = copy.deepcopy(self.observation)
        self.info = copy.deepcopy(dict(self.info))

    @property
    def over(self) -> bool:
        """The agent's part of the game is over."""
        return self.terminated or self.truncated

    def to_wire(self) -> list[Any]:
        """Return the result of a step."""
        return [self.observation, self.reward, self.terminated, self.truncated, self.info]


class Moves(Protocol):
    """A running episode.

    Attributes:
        env: The environment.
        outcomes: What agents have not been told yet.
    """

    env: Any
    outcomes: dict[Hashable, Outcome]

    @property
    def awaited(self) -> list[Hashable]:
        """Agents whose action the game waits for."""

    def begin(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Begin an episode."""

    def act(self, agent: Hashable, action: Any) -> bool:
        """Take the action of an agent that is awaited; tell whether the game moved."""

    def reward_so_far(self, agent: Hashable) -> float:
        """Return what an agent was given and not told."""


def moves_of(env: Any) -> Moves:
    """Return how an environment of PettingZoo moves."""
    from pettingzoo import AECEnv

    return _InTurn(env) if isinstance(env, AECEnv) else _AtOnce(env)


class _InTurn:
    """Agents act in turn; the game steps for those that are dead."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.outcomes: dict[Hashable, Outcome] = {}

    @property
    def awaited(self) -> list[Hashable]:
        return [self.env.agent_selection] if self.env.agents else []

    def begin(self, seed: int | None, options: dict[str, Any] | None) -> None:
        self.outcomes = {}
        self.env.reset(seed=seed, options=options)
        _check_all_play(self.env)
        self._deliver()

    def act(self, agent: Hashable, action: Any) -> bool:
        self.env.step(action)
        self._deliver()
        return True

    def reward_so_far(self, agent: Hashable) -> float:
        return float(self.env._cumulative_rewards.get(agent, 0.0))

    def _deliver(self) -> None:
        """Tell whose turn it is, and before it those that are dead."""
        env = self.env
        while env.agents:
            agent = env.agent_selection
            outcome = self.outcomes[agent] = Outcome(*env.last())
            if not outcome.over:
                return
            env.step(None)


class _AtOnce:
    """The game moves when all agents have acted."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.outcomes: dict[Hashable, Outcome] = {}
        self._actions: dict[Hashable, Any] = {}

    @property
    def awaited(self) -> list[Hashable]:
        return [agent for agent in self.env.agents if agent not in self._actions]

    def begin(self, seed: int | None, options: dict[str, Any] | None) -> None:
        self._actions = {}
        observations, infos = self.env.reset(seed=seed, options=options)
        _check_all_play(self.env)
        self.outcomes = {
            agent: Outcome(observations[agent], 0.0, False, False, infos.get(agent, {}))
            for agent in self.env.agents
        }

    def act(self, agent: Hashable, action: Any) -> bool:
        self._actions[agent] = action
        if self.awaited:
            return False
        actions, self._actions = self._actions, {}
        observations, rewards, terminations, truncations, infos = self.env.step(actions)
        for each in actions:
            self.outcomes[each] = Outcome(
                observations[each],
                rewards[each],
                bool(terminations[each]),
                bool(truncations[each]),
                infos.get(each, {}),
            )
        return True

    def reward_so_far(self, agent: Hashable) -> float:
        return 0.0


def _check_all_play(env: Any) -> None:
    if set(env.agents) != set(env.possible_agents):
        raise InvalidOptionError(
            "Agents that come and go cannot be played by several clients.", field="multi_agent"
        )
