"""`RemoteAECEnv`: an ordinary `pettingzoo.AECEnv` whose world is on a server."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from pettingzoo import AECEnv

from openenv_gym import errors
from openenv_gym.multi_agent.base import RemoteAgents


__all__ = ["RemoteAECEnv"]

_TURN = (
    "agents",
    "agent_selection",
    "_observation",
    "rewards",
    "_cumulative_rewards",
    "terminations",
    "truncations",
    "infos",
)
"""Items of a turn (docs/protocol.md, section 4.8), as attributes."""


class RemoteAECEnv(RemoteAgents, AECEnv[Any, Any, Any]):  # type: ignore[misc]  # untyped
    """Agents that act in turn, in one session.

    `step` is one round trip: its reply brings what `last`, `rewards`, `terminations` and the like
    return. Only `observe` of an agent whose turn it is not asks the server again.
    """

    api = "aec"
    _after_reset = frozenset(_TURN)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a new episode.

        Args:
            seed: Seeds the environment, on the server.
            options: Options of the episode, by environment.

        Raises:
            EnvironmentFailedError: The environment raised an exception (which this is, too).
            ConnectionLostError: The server is gone.
            DeadlineExceededError: No answer came in time.
            SessionClosedError: The environment is closed.
        """
        self._take(self._openenv_session.reset(seed, options))

    def step(self, action: Any) -> None:
        """Take the action of the agent whose turn it is.

        Args:
            action: A sample of its action space; None where it is terminated or truncated.

        Raises:
            ResetNeededError: There was no reset yet, the last step was interrupted, or no agents
                are left.
            EnvironmentFailedError: The environment raised an exception (which this is, too).
            ConnectionLostError: The server is gone.
            DeadlineExceededError: No answer came in time.
            SessionClosedError: The environment is closed.
        """
        self._take(self._openenv_session.step(action))

    def observe(self, agent: Hashable) -> Any:
        """Return what an agent observes.

        Raises:
            ResetNeededError: There was no reset yet.
            EnvironmentFailedError: The environment raised an exception (which this is, too).
        """
        if self._openenv_session.started and agent == self.agent_selection and self.agents:
            return self._observation
        return self._openenv_session.request("look", [agent])

    def _take(self, turn: Any) -> None:
        if not isinstance(turn, list) or len(turn) != len(_TURN):
            raise errors.ProtocolError(f"Expected a turn of {len(_TURN)} items, got {turn!r:.80}.")
        self.__dict__.update(zip(_TURN, turn, strict=True))
        self._openenv_show()
