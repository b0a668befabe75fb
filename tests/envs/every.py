"""Every environment with one agent, by its id, and a way to play any of them."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence

from tests.support.images import ALWAYS_BUILT


__all__ = ["CASES", "Case", "in_containers", "play", "same"]


class Case(NamedTuple):
    """An id with options that show something of it.

    Attributes:
        id: The id, without its namespace.
        package: Who has it.
        options: Options.
        here: Options that it needs where nothing contains it.
        saves: It can save its state.
    """

    id: str
    package: str
    options: dict[str, Any] = {}  # a tuple's, and never changed
    here: dict[str, Any] = {}
    saves: bool = True

    def make(self, provider: str = "thread", **options: Any) -> gymnasium.Env[Any, Any]:
        """Return the environment on a server of its own."""
        here = {} if provider == "docker" else self.here
        given = {"provider": provider, **self.options, **here, **options}
        return gymnasium.make(f"openenv/{self.id}", **given)


_PROGRAMS = {"allow_unisolated": True, "allow_unsandboxed": True}

CASES = [
    Case("Echo-v0", "echo_env", {"episode_length": 30}),
    Case("Atari-v0", "atari_env", {"game": "breakout", "obs_type": "ram"}),
    Case("Chess-v0", "chess_env", {"agent_color": "random", "max_moves": 40}),
    Case("OpenSpiel-v0", "openspiel_env", {"game": "tic_tac_toe"}),
    Case("TextBlackjack-v0", "openspiel_env"),
    Case("ConnectFour-v0", "connect4_env", {"side": "random"}),
    Case("GridWorld-v0", "grid_world_env", {"start": "random", "walls": [(1, 1), (2, 1), (1, 3)]}),
    Case("Maze-v0", "maze_env"),
    Case("Snake-v0", "snake_env", {"height": 8, "width": 8}),
    Case("TextArena-v0", "textarena_env", {"env_id": "TicTacToe-v0"}),
    Case("FinRL-v0", "finrl_env", {"random_start": True, "episode_length": 90}),
    Case("Coding-v0", "coding_env", {}, _PROGRAMS, saves=False),
]

_SHOWN = re.compile(r"\[[^\[\]\n]{1,40}\]")


def in_containers() -> list[Any]:
    """Return the cases as parameters; those whose images not every run builds have a marker."""
    return [
        pytest.param(case, marks=() if case.package in ALWAYS_BUILT else pytest.mark.images)
        for case in CASES
    ]


def play(env: gymnasium.Env[Any, Any], steps: int, seed: int = 3) -> list[Any]:
    """Return everything that random moves bring, the resets between them included."""
    rng = np.random.default_rng(seed)
    env.action_space.seed(seed)
    seen: list[Any] = [env.reset(seed=seed)]
    for number in range(steps):
        seen.append(env.step(_choose(env, seen[-1], number, rng)))
        assert seen[-1][0] in env.observation_space
        if seen[-1][2] or seen[-1][3]:
            seen.append(env.reset())
    return seen


def _choose(env: Any, last: tuple[Any, ...], number: int, rng: np.random.Generator) -> Any:
    """Return something that may be done, as an agent learns it: by mask, by list, or in words."""
    observation, info = last[0], last[-1]
    if "action_mask" in info:
        return int(rng.choice(np.flatnonzero(info["action_mask"])))
    named = info.get("legal_actions")
    if isinstance(observation, dict):
        named = observation.get("legal_moves", named)
        if "messages" in observation:  # TextArena's games show moves in brackets
            said = "".join(message["content"] for message in observation["messages"])
            named = _SHOWN.findall(said) or ["[4]"]
        if "stdout" in observation:
            return f"x = {number}\nimport random\nprint(x, random.random()); x * 2"
    if named is None:
        return env.action_space.sample()
    return str(named[int(rng.integers(len(named)))])


def same(one: Any, other: Any) -> bool:
    """Tell whether two trajectories are equal to the bit."""
    return bool(data_equivalence(one, other, exact=True))
