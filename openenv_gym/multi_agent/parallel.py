"""`RemoteParallelEnv`: an ordinary `pettingzoo.ParallelEnv` whose world is on a server."""

from __future__ import annotations

from typing import Any

from pettingzoo import ParallelEnv

from openenv_gym import errors
from openenv_gym.multi_agent.base import RemoteAgents


__all__ = ["RemoteParallelEnv"]

ByAgent = dict[Any, Any]


class RemoteParallelEnv(RemoteAgents, ParallelEnv[Any, Any, Any]):  # type: ignore[misc]  # untyped
    """Agents that act at once, in one session: a step is one request with the actions of all."""

    api = "parallel"

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ByAgent, ByAgent]:
        """Begin a new episode.

        Args:
            seed: Seeds the environment, on the server.
            options: Options of the episode, by environment.

        Returns:
            Observations and infos, by agent.

        Raises:
            EnvironmentFailedError: The environment raised an exception (which this is, too).
            ConnectionLostError: The server is gone.
            DeadlineExceededError: No answer came in time.
            SessionClosedError: The environment is closed.
        """
        observations, infos = self._take(self._openenv_session.reset(seed, options), 3)
        return observations, infos

    def step(self, actions: ByAgent) -> tuple[ByAgent, ByAgent, ByAgent, ByAgent, ByAgent]:
        """Take the actions of all agents.

        Args:
            actions: Samples of the action spaces, by agent.

        Returns:
            Observations, rewards, terminations, truncations and infos, by agent.

        Raises:
            ResetNeededError: There was no reset yet, or the last step was interrupted.
            EnvironmentFailedError: The environment raised an exception (which this is, too).
            ConnectionLostError: The server is gone.
            DeadlineExceededError: No answer came in time.
            SessionClosedError: The environment is closed.
        """
        result = self._take(self._openenv_session.step(dict(actions)), 6)
        observations, rewards, terminations, truncations, infos = result
        return observations, rewards, terminations, truncations, infos

    def _take(self, result: Any, count: int) -> list[ByAgent]:
        if not isinstance(result, list) or len(result) != count:
            raise errors.ProtocolError(f"Expected a result of {count} items, got {result!r:.80}.")
        agents, *rest = result
        self.agents = list(agents)
        self._openenv_show()
        return rest
