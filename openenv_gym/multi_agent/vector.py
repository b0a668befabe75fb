"""Many parallel environments on one or several servers, moved together."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.vector.utils import batch_space

from openenv_gym import errors
from openenv_gym.client import Connection, Pending, gather
from openenv_gym.multi_agent.welcome import AgentSpaces, check_session
from openenv_gym.vector.batches import batches_of


__all__ = ["Opened", "RemoteParallelVectorEnv"]

ByAgent = dict[Any, Any]
Infos = list[dict[Any, dict[str, Any]]]


class Opened(NamedTuple):
    """A session with several environments.

    Attributes:
        connection: The session.
        release: Called once when it is no longer needed; stops a server of its own.
    """

    connection: Connection
    release: Callable[[], None] = lambda: None


class RemoteParallelVectorEnv:
    """`num_envs` parallel environments: one request to each server for a step of all.

    Everything is by agent, and batched as in `gymnasium.vector`: ``observations[agent]`` has the
    environments as its first dimension. All environments have the same agents; where one of them
    has no part in an environment any more, ``alive[agent][i]`` is False, its observation is zeros,
    and its action is ignored. An environment whose agents are all gone resets in the next step,
    which ignores its actions and has reward 0 (Gymnasium's ``"NextStep"``).

    What environment i does depends on its seed alone, never on the number of servers.

    Args:
        sessions: Sessions, in the order of the environments.
        timeout_s: Limit of each request.

    Attributes:
        num_envs: How many environments there are.
        possible_agents: Their agents.
        alive: By agent, where it is to act next; bool, shape ``(num_envs,)``. There is one after
            the first `reset`.
        metadata: That of the environments.
        render_mode: That of the environments.
    """

    alive: dict[Any, npt.NDArray[np.bool_]]

    def __init__(self, sessions: Sequence[Opened], *, timeout_s: float = 120.0) -> None:
        self._sessions = list(sessions)
        self._timeout_s = timeout_s
        described = [check_session(each.connection, "parallel") for each in sessions]
        first = described[0]
        counts = [int(each.get("num_envs") or 0) for each in described]
        if not all(counts) or not first["possible_agents"]:
            raise errors.VersionMismatchError(
                "The server cannot move several environments at once.",
                hint="Install a newer openenv-gym there.",
            )
        self.num_envs = sum(counts)
        self.possible_agents: list[Any] = list(first["possible_agents"])
        environment = self._sessions[0].connection.environment
        self.metadata = dict(environment.get("metadata") or {})
        self.render_mode = environment.get("render_mode")
        self._spaces = AgentSpaces(first["spaces"])
        ends = np.cumsum(counts).tolist()
        self._rows = [slice(*each) for each in zip([0, *ends], ends, strict=False)]
        self._observation_batches = {
            agent: batches_of(self._spaces.observation[agent]) for agent in self.possible_agents
        }
        self._action_batches = {
            agent: batches_of(self._spaces.action[agent]) for agent in self.possible_agents
        }
        self._observation_spaces = self._batch_spaces(self._spaces.observation)
        self._action_spaces = self._batch_spaces(self._spaces.action)
        self._finalizer = weakref.finalize(self, _end_all, self._sessions)

    def _batch_spaces(self, spaces: ByAgent) -> ByAgent:
        return {agent: batch_space(spaces[agent], self.num_envs) for agent in self.possible_agents}

    # -- spaces -------------------------------------------------------------------------------

    def single_observation_space(self, agent: Hashable) -> gymnasium.Space[Any]:
        """Return an agent's observation space in one environment."""
        return self._spaces.observation[agent]

    def single_action_space(self, agent: Hashable) -> gymnasium.Space[Any]:
        """Return an agent's action space in one environment."""
        return self._spaces.action[agent]

    def observation_space(self, agent: Hashable) -> gymnasium.Space[Any]:
        """Return the space of an agent's batches of observations."""
        space: gymnasium.Space[Any] = self._observation_spaces[agent]
        return space

    def action_space(self, agent: Hashable) -> gymnasium.Space[Any]:
        """Return the space of an agent's batches of actions."""
        space: gymnasium.Space[Any] = self._action_spaces[agent]
        return space

    # -- playing ------------------------------------------------------------------------------

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[ByAgent, Infos]:
        """Begin a new episode in all environments.

        Args:
            seed: Environment i gets ``seed + i``, or its own of a sequence.
            options: Options of the episodes.

        Returns:
            Batches of observations by agent, and for each environment its infos by agent.

        Raises:
            InvalidOptionError: There are not as many seeds as environments.
            EnvironmentFailedError: An environment raised an exception.
            ConnectionLostError: A server is gone.
            DeadlineExceededError: No answer came in time.
        """
        seeds = _read_seeds(seed, self.num_envs)
        parts = [seeds[rows] for rows in self._rows]
        alive, observations, infos = self._run("reset", [[part, options] for part in parts], 3)
        self.alive = self._join_columns(alive)
        return self._join_batches(observations), self._join_infos(infos)

    def step(self, actions: ByAgent) -> tuple[ByAgent, ByAgent, ByAgent, ByAgent, Infos]:
        """Take one step in all environments.

        Args:
            actions: For each agent a batch of `num_envs` actions.

        Returns:
            Observations, rewards (float64), terminations and truncations (bool) by agent, each
            with `num_envs` rows; and for each environment its infos by agent.

        Raises:
            InvalidActionError: A batch is missing, or is none of `num_envs` actions.
            ResetNeededError: There was no reset yet.
            EnvironmentFailedError: An environment raised an exception.
            ConnectionLostError: A server is gone.
            DeadlineExceededError: No answer came in time.
        """
        results = self._run("step", [[part] for part in self._split(actions)], 6)
        alive, observations, rewards, terminations, truncations, infos = results
        self.alive = self._join_columns(alive)
        return (
            self._join_batches(observations),
            self._join_columns(rewards),
            self._join_columns(terminations),
            self._join_columns(truncations),
            self._join_infos(infos),
        )

    def render(self) -> list[Any]:
        """Return the picture of each environment."""
        parts = self._ask("render", [[] for _ in self._sessions])
        return [frame for part in parts for frame in part]

    def close(self) -> None:
        """End the sessions, and servers of their own. Safe to repeat."""
        self._finalizer()

    def __str__(self) -> str:
        name = self._sessions[0].connection.environment.get("name")
        return f"{type(self).__name__}({name}, num_envs={self.num_envs})"

    # -- servers ------------------------------------------------------------------------------

    def _run(self, op: str, arguments: list[list[Any]], count: int) -> list[list[Any]]:
        """Return the items of the results, each as a list with one for each server."""
        results = self._ask(op, arguments)
        for result in results:
            if not isinstance(result, list) or len(result) != count:
                raise errors.ProtocolError(
                    f"Expected a result of {count} items, got {result!r:.80}."
                )
        return [list(item) for item in zip(*results, strict=True)]

    def _ask(self, op: str, arguments: list[list[Any]]) -> list[Any]:
        """Send a request to all servers, then wait for all of them."""
        pairs: list[tuple[Connection, Pending]] = []
        results: dict[int, Any] = {}
        failure: errors.OpenEnvGymError | None = None
        try:
            for session, args in zip(self._sessions, arguments, strict=True):
                pairs.append((session.connection, session.connection.begin(op, args)))
            for index, outcome in gather(pairs, time.monotonic() + self._timeout_s):
                results[index] = outcome
                if isinstance(outcome, errors.OpenEnvGymError):
                    failure = failure or outcome
        finally:
            for index, (connection, pending) in enumerate(pairs):
                if index not in results:
                    connection.abandon(pending)
        if failure is not None:
            raise failure
        if len(results) < len(pairs):
            raise errors.DeadlineExceededError(
                f"No answer to {op} within {self._timeout_s:g} s.", data={"op": op}
            )
        return [results[index].value for index in range(len(pairs))]

    # -- batches ------------------------------------------------------------------------------

    def _split(self, actions: ByAgent) -> list[ByAgent]:
        """Return the actions for each server."""
        if missing := [agent for agent in self.possible_agents if agent not in actions]:
            raise errors.InvalidActionError(
                f"Expected a batch of actions for each agent, got none for {missing!r:.100}.",
                field="actions",
            )
        parts: list[ByAgent] = [{} for _ in self._sessions]
        for agent, batches in self._action_batches.items():
            batch = batches.check(actions[agent], self.num_envs, f"actions[{agent!r:.60}]")
            for part, rows in zip(parts, self._rows, strict=True):
                part[agent] = batches.take(batch, rows)
        return parts

    def _join_columns(self, parts: list[ByAgent]) -> ByAgent:
        if len(parts) == 1:
            return parts[0]
        return {
            agent: np.concatenate([part[agent] for part in parts]) for agent in self.possible_agents
        }

    def _join_batches(self, parts: list[ByAgent]) -> ByAgent:
        if len(parts) == 1:
            return parts[0]
        return {
            agent: batches.join(
                [(rows, part[agent]) for rows, part in zip(self._rows, parts, strict=True)],
                self.num_envs,
            )
            for agent, batches in self._observation_batches.items()
        }

    def _join_infos(self, parts: list[dict[int, Any]]) -> Infos:
        infos: Infos = [{} for _ in range(self.num_envs)]
        for rows, part in zip(self._rows, parts, strict=True):
            for index, each in part.items():
                infos[rows.start + index] = each
        return infos


def _read_seeds(seed: Any, num_envs: int) -> list[int | None]:
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
        return [int(seed) + index for index in range(num_envs)]
    seeds = list(seed)
    if len(seeds) != num_envs:
        raise errors.InvalidOptionError(
            f"Expected {num_envs} seeds, got {len(seeds)}.", field="seed"
        )
    return seeds


def _end_all(sessions: list[Opened]) -> None:
    for connection, release in sessions:
        with contextlib.suppress(errors.OpenEnvGymError):
            connection.close()
        release()
