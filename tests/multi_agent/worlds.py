"""Environments with several agents, for tests: served by ``tests.multi_agent.worlds:NAME``."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from pettingzoo import AECEnv, ParallelEnv


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Cards(AECEnv[str, Any, Any]):
    """Two players hold a hand that the other must not see, and say numbers in turn.

    Whoever says 9 first wins; 8 raises an exception whose text tells both hands.
    """

    metadata: dict[str, Any] = {"name": "cards", "render_modes": ["ansi"]}

    def __init__(self, render_mode: str | None = None, hand_size: int = 24) -> None:
        self.render_mode = render_mode
        self.hand_size = hand_size
        self.possible_agents = ["player_0", "player_1"]
        self.agents = []
        self.hands: dict[str, str] = {}
        self.np_random: np.random.Generator = seeding.np_random(None)[0]

    @functools.cache  # noqa: B019  # the same object each time, as PettingZoo wants it
    def observation_space(self, agent: str) -> spaces.Space[Any]:
        hand = spaces.Text(min_length=self.hand_size, max_length=self.hand_size, charset=LETTERS)
        return spaces.Dict({"hand": hand, "said": spaces.Discrete(10)})

    @functools.cache  # noqa: B019
    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Discrete(10)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        if seed is not None:
            self.np_random, _ = seeding.np_random(seed)
        self.agents = list(self.possible_agents)
        self.hands = {
            agent: "".join(self.np_random.choice(list(LETTERS), self.hand_size).tolist())
            for agent in self.agents
        }
        self.said = 0
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {"hand": self.hands[agent]} for agent in self.agents}
        self.agent_selection = self.agents[0]

    def observe(self, agent: str) -> Any:
        return {"hand": self.hands[agent], "said": np.int64(self.said)}

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        if action == 8:
            raise RuntimeError(f"look at these: {self.hands}")
        other = self.possible_agents[1 - self.possible_agents.index(agent)]
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        self.said = int(action)
        self.rewards[other] = 0.25
        if action == 9:
            self.rewards = {agent: 1.0, other: -1.0}
            self.terminations = dict.fromkeys(self.agents, True)
        self.agent_selection = other
        self._accumulate_rewards()

    def state(self) -> Any:
        return np.array([ord(each) for hand in self.hands.values() for each in hand], np.uint8)

    def render(self) -> str:
        return str(self.hands)

    def close(self) -> None:
        pass


class Sums(ParallelEnv[str, Any, Any]):
    """Agents choose at once, and are paid what they chose; an agent that chooses 0 is out.

    The second episode of a seed differs from the first one.
    """

    metadata: dict[str, Any] = {"name": "sums", "render_modes": ["rgb_array"], "render_fps": 7}

    def __init__(
        self, players: int = 3, length: int = 5, size: int = 2, render_mode: str | None = None
    ) -> None:
        self.possible_agents = [f"player_{number}" for number in range(players)]
        self.agents = []
        self.length = length
        self.render_mode = render_mode
        self.np_random: np.random.Generator = seeding.np_random(None)[0]
        self._observations = {
            agent: spaces.Box(0, 1000, (size,), np.float32) for agent in self.possible_agents
        }
        self._actions = {agent: spaces.Discrete(10) for agent in self.possible_agents}
        self.state_space = spaces.Box(0, 1000, (players,), np.int64)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self._observations[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self._actions[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None:
            self.np_random, _ = seeding.np_random(seed)
        self.agents = list(self.possible_agents)
        self.count = 0
        self.totals = dict.fromkeys(self.agents, 0)
        self.drawn = self.np_random.integers(100)
        return self._observe(), {agent: {"options": options} for agent in self.agents}

    def _observe(self) -> dict[str, Any]:
        return {
            agent: np.full(self._observations[agent].shape, self.drawn + total, np.float32)
            for agent, total in self.totals.items()
            if agent in self.agents
        }

    def step(self, actions: dict[str, Any]) -> Any:
        assert set(actions) == set(self.agents)
        self.count += 1
        self.drawn = self.np_random.integers(100)
        for agent, action in actions.items():
            self.totals[agent] += int(action)
        observations = self._observe()
        rewards = {agent: float(action) for agent, action in actions.items()}
        terminations = {agent: int(action) == 0 for agent, action in actions.items()}
        truncations = dict.fromkeys(actions, self.count >= self.length)
        infos = {agent: {"total": self.totals[agent]} for agent in actions}
        self.agents = [
            agent for agent in self.agents if not (terminations[agent] or truncations[agent])
        ]
        return observations, rewards, terminations, truncations, infos

    def state(self) -> Any:
        return np.array([self.totals[agent] for agent in self.possible_agents], np.int64)

    def render(self) -> Any:
        return np.full((4, 4, 3), self.count, np.uint8)

    def close(self) -> None:
        pass


def generated_aec(**options: Any) -> Any:
    """Return PettingZoo's example of agents that come and go."""
    from tests.support.zoo import generated_agents_env_v0

    return generated_agents_env_v0.env(**options)


def generated_parallel(**options: Any) -> Any:
    """Return the same, where agents act at once."""
    from tests.support.zoo import generated_agents_parallel_v0

    return generated_agents_parallel_v0.parallel_env(**options)
