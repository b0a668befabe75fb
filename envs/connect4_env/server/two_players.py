"""Connect Four for two agents, with the names and spaces of PettingZoo's ``connect_four_v3``."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv

from connect4_env.board import COLUMNS, ROWS, Board
from connect4_env.server.pictures import draw
from openenv_gym.errors import InvalidActionError, ResetNeededError
from openenv_gym.server import check_choice


__all__ = ["TwoPlayers"]

_AGENTS = ("player_0", "player_1")
_MODES = ("ansi", "rgb_array")


class TwoPlayers(AECEnv[str, Any, Any]):  # type: ignore[misc]  # untyped
    """Two agents in turn; each sees its own discs first.

    An observation is ``{"observation": (6, 7, 2) int8, "action_mask": (7,) int8}``: own discs, the
    other's discs; row 0 is the top. The mask is zeros for whoever's turn it is not. Four in a row
    are worth 1 to who made them and -1 to the other. A full column loses: -1, and 0 to the other.

    Args:
        render_mode: ``"ansi"``, ``"rgb_array"`` or None.

    Raises:
        InvalidOptionError: There is no such render mode.
    """

    metadata: dict[str, Any] = {
        "name": "connect4",
        "render_modes": list(_MODES),
        "render_fps": 2,
        "is_parallelizable": False,
    }

    def __init__(self, render_mode: str | None = None) -> None:
        check_choice("render_mode", render_mode, (*_MODES, None))
        super().__init__()
        self.render_mode = render_mode
        self.possible_agents = list(_AGENTS)
        self.observation_spaces = {agent: _observation_space() for agent in _AGENTS}
        self.action_spaces = {agent: spaces.Discrete(COLUMNS) for agent in _AGENTS}
        self.state_space = spaces.Box(-1, 1, (ROWS, COLUMNS), np.int8)
        self.agents: list[str] = []
        self._board = Board()

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the observation space of an agent."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the action space of an agent."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a game; nothing in it is random."""
        self._board = Board()
        self.agents = list(_AGENTS)
        self.rewards = dict.fromkeys(_AGENTS, 0.0)
        self._cumulative_rewards = dict.fromkeys(_AGENTS, 0.0)
        self.terminations = dict.fromkeys(_AGENTS, False)
        self.truncations = dict.fromkeys(_AGENTS, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in _AGENTS}
        self.agent_selection = _AGENTS[0]

    def observe(self, agent: str) -> dict[str, Any]:
        """Return what an agent sees."""
        player = _AGENTS.index(agent)
        seen = [self._board.cells(player), self._board.cells(1 - player)]
        mask = np.zeros(COLUMNS, np.int8)
        if agent == self.agent_selection and not any(self.terminations.values()):
            mask[self._board.legal] = 1
        return {"observation": np.stack(seen, axis=2).astype(np.int8), "action_mask": mask}

    def step(self, action: Any) -> None:
        """Drop a disc.

        Raises:
            ResetNeededError: No game goes on.
            InvalidActionError: The action is no column.
        """
        if not self.agents:
            raise ResetNeededError("The game is over.", hint="Call reset() first.")
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        if not self.action_spaces[agent].contains(action):
            raise InvalidActionError(
                f"Expected a column from 0 to {COLUMNS - 1}, got {action!r:.40}.", field="action"
            )
        other = _AGENTS[1 - _AGENTS.index(agent)]
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        if int(action) in self._board.legal:
            self._board.play(int(action))
            if self._board.winner is not None:
                self.rewards = {agent: 1.0, other: -1.0}
            over = self._board.over
        else:
            self.rewards = {agent: -1.0, other: 0.0}
            over = True
        if over:
            self.terminations = dict.fromkeys(_AGENTS, True)
        self.agent_selection = other
        self._accumulate_rewards()

    def state(self) -> np.ndarray[Any, Any]:
        """Return the board, as `Connect4Observation` has it; shape (6, 7), int8."""
        return self._board.to_array()

    def render(self) -> Any:
        """Return the board as text, or as an array of shape (192, 224, 3), uint8."""
        if self.render_mode == "rgb_array":
            return draw(self._board)
        return str(self._board) if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Free nothing."""


def _observation_space() -> spaces.Space[Any]:
    return spaces.Dict(
        {
            "observation": spaces.Box(0, 1, (ROWS, COLUMNS, 2), np.int8),
            "action_mask": spaces.Box(0, 1, (COLUMNS,), np.int8),
        }
    )
