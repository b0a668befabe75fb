"""`SeatEnv`: one agent of a game that several clients play, as a `gymnasium.Env`."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from enum import Enum
from typing import Any, SupportsFloat

import gymnasium

from openenv_gym.client import Connection
from openenv_gym.env import RemoteSession
from openenv_gym.multi_agent.welcome import AgentSpaces, check_session


__all__ = ["EndReason", "SeatEnv"]


class EndReason(str, Enum):
    """Why an episode of a shared game was broken off: ``info["end_reason"]``."""

    LEFT = "left"
    """A player closed its environment, or its session ended."""
    RESET = "reset"
    """A player asked for a new episode while this one went on."""
    OVERRUN = "overrun"
    """A player did not act in time."""
    FAILED = "failed"
    """An action of a player made the environment raise an exception."""


class SeatEnv(gymnasium.Env[Any, Any]):
    """Plays one agent; the others are played by other clients.

    `reset` waits until all players have called it, `step` until it is this agent's turn again.
    An episode that somebody breaks off is truncated, and the info says why
    (``info["end_reason"]``, an `EndReason`) and by whom (``info["ended_by"]``).

    Args:
        connection: The session.
        agent: Which agent is played.
        release: Called once when the environment is closed, dropped, or the program ends.

    Attributes:
        agent: As above.
        possible_agents: All agents of the game.
    """

    def __init__(
        self,
        connection: Connection,
        agent: Hashable,
        *,
        release: Callable[[], None] = lambda: None,
    ) -> None:
        many = check_session(connection, "seat")
        spaces = AgentSpaces(many["spaces"])
        self.agent = agent
        self.possible_agents = list(many["possible_agents"] or ())
        self.metadata = {**(connection.environment.get("metadata") or {}), "render_modes": []}
        self.render_mode = None
        self.spec = None
        self.observation_space = spaces.observation[agent]
        self.action_space = spaces.action[agent]
        self.openenv = RemoteSession(connection)
        self._finalizer = weakref.finalize(self, _end, connection, release)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Wait for a new episode, and in it for this agent's first turn.

        Args:
            seed: A part of the episode's seed, which is made of those of all players. Equal seeds
                of all give equal episodes; one that others can guess tells them what is dealt.
            options: Options of the episode.

        Returns:
            Observation and info.

        Raises:
            OthersMissingError: The others did not come in time; it may be called again.
            EnvironmentFailedError: The game raised an exception, whose text is not told.
            ConnectionLostError: The server is gone.
            DeadlineExceededError: No answer came in time.
            SessionClosedError: The environment is closed.
        """
        super().reset(seed=seed)
        observation, info = self.openenv.reset(seed, options)
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Act, and wait for the next turn, or for the end of this agent's part of the game.

        Args:
            action: A sample of `action_space`.

        Returns:
            Observation, the sum of rewards since the last action, terminated, truncated and info.

        Raises:
            InvalidActionError: The action is not in the action space; the turn is still this
                agent's.
            ResetNeededError: There was no reset yet, or the episode is over.
            EnvironmentFailedError: The game raised an exception, whose text is not told.
            ConnectionLostError: The server is gone.
            DeadlineExceededError: No answer came in time.
            SessionClosedError: The environment is closed.
        """
        observation, reward, terminated, truncated, info = self.openenv.step(action)
        if "end_reason" in info:
            info["end_reason"] = EndReason(info["end_reason"])
        return observation, reward, terminated, truncated, info

    def close(self) -> None:
        """Leave the game, which is over for the others. Safe to repeat."""
        self._finalizer()


def _end(connection: Connection, release: Callable[[], None]) -> None:
    try:
        connection.close()
    finally:
        release()
