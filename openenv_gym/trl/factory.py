"""What TRL's ``environment_factory`` takes: a class whose methods are an environment's tools."""

from __future__ import annotations

import importlib.metadata
import operator
import re
import threading
import warnings
from collections.abc import Sequence
from typing import Any

from openenv_gym import errors
from openenv_gym.agents.episode import Episode
from openenv_gym.agents.functions import tool_function
from openenv_gym.agents.pool import AgentPool
from openenv_gym.agents.session import AgentSession
from openenv_gym.agents.tools import AgentTool
from openenv_gym.client.background import run_blocking
from openenv_gym.trl.rewards import check_failure


__all__ = ["EnvironmentFactory", "environment"]

_OWNS_REWARD = (1, 8)
"""From this release of TRL on `get_reward` is no tool but the environment's reward."""


def environment(
    env_id: str, *, owns_reward: bool = True, columns: Sequence[str] = (), **pool: Any
) -> EnvironmentFactory:
    """Return what TRL's ``environment_factory`` takes.

    Nothing is started before the trainer makes the first environment. It can be pickled, as
    `AsyncGRPOTrainer` needs it.

    Args:
        env_id: One of our ids.
        owns_reward: The environments have `get_reward`, from TRL 1.8 on: the sum of an episode's
            rewards. Without it, pass ``reward_funcs=[episode_reward]``, or `component`.
        columns: Columns of the dataset that are options of the environment's reset. ``seed`` is
            always taken.
        **pool: Further arguments of `AgentPool`: where servers run, which tools there are, what
            becomes of failures, options of the environment.

    Raises:
        UnknownEnvironmentError: There is no such id.
        InvalidOptionError: An argument has a value that is not taken.
    """
    return EnvironmentFactory(
        AgentPool(env_id, **pool), owns_reward=owns_reward, columns=tuple(columns)
    )


class EnvironmentFactory:
    """Makes environments for TRL; see `environment`.

    Attributes:
        pool: Where their sessions come from.
    """

    def __init__(self, pool: AgentPool, *, owns_reward: bool, columns: tuple[str, ...]) -> None:
        self.pool = pool
        self._owns_reward = owns_reward
        self._columns = columns
        self._lock = threading.Lock()
        self._class: type[_Environment] | None = None

    def __call__(self) -> Any:
        """Make an environment. The first one starts a server and asks it for the tools.

        Raises:
            InvalidOptionError: The environment has no such tools.
            OpenEnvGymError: There is no server, or it fails.
        """
        session = self.pool.session()
        with self._lock:
            if self._class is None:
                self._class = self._make_class()
            return self._class(session, self.pool, self._columns)

    def close(self) -> None:
        """End the sessions of all environments, and thereby their servers."""
        self.pool.close()

    def _make_class(self) -> type[_Environment]:
        # TRL finds tools on the class, and calls the reward after the class.
        name = re.sub(r"\W", "", self.pool.env_id.rpartition("/")[2].rpartition("-v")[0]) or "Env"
        methods: dict[str, Any] = {
            tool.name: tool_function(tool, _Environment._call) for tool in self.pool.abilities.tools
        }
        if self._owns_reward and _trl_release() >= _OWNS_REWARD:
            methods["get_reward"] = _get_reward
        return type(name, (_Environment,), methods)

    def __reduce__(self) -> tuple[Any, ...]:
        return _factory_again, (self.pool, self._owns_reward, self._columns)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.pool.env_id!r})"


def _factory_again(pool: AgentPool, owns_reward: bool, columns: tuple[str, ...]) -> Any:
    return EnvironmentFactory(pool, owns_reward=owns_reward, columns=columns)


class _Environment:
    """What TRL resets and whose tools it calls; its other functions are private, as TRL wants it.

    Attributes:
        episode: The last episode; None before the first one.
        reward: What it earned so far.
        done: It is over.
    """

    episode: Episode | None = None
    reward: float = 0.0
    done: bool = False

    def __init__(self, session: AgentSession, pool: AgentPool, columns: tuple[str, ...]) -> None:
        self._session = session
        self._pool = pool
        self._columns = columns

    def reset(self, **row: Any) -> str:
        """Begin an episode, with the seed of the dataset's row.

        Args:
            **row: A row of the dataset.

        Returns:
            What the model is told, to be added to the prompt.
        """
        if self._session.episode is None:
            # TRL resets one after the other: whoever comes first connects all of them at once.
            run_blocking(self._pool.connect())
        if "seed" not in row:
            _warn_of_seeds()
        options = {name: row[name] for name in self._columns if row.get(name) is not None}
        turn = run_blocking(self._session.begin(seed=_seed(row.get("seed")), options=options))
        self._note()
        return turn.text

    def _call(self, tool: AgentTool, arguments: dict[str, Any]) -> str:
        try:
            turn = run_blocking(self._session.call(tool.name, arguments))
        finally:
            self._note()
        if turn.refused:
            # TRL shows the model what an exception says, and counts it.
            raise errors.InvalidActionError(turn.text)
        return turn.text

    def _note(self) -> None:
        self.episode = episode = self._session.episode
        self.reward = self._session.score
        self.done = episode is not None and episode.done


def _get_reward(self: _Environment) -> float:
    """Return what the episode earned.

    Raises:
        OpenEnvGymError: Its server failed, which TRL has shown to the model alone.
    """
    if self.episode is None:
        return 0.0
    check_failure(self.episode)
    return self.reward


_get_reward.__name__ = _get_reward.__qualname__ = "get_reward"


def _seed(value: Any) -> int | None:
    if value is None:
        return None
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise errors.InvalidOptionError(
            f"seed={value!r:.80}: expected an integer from 0, or none.", field="seed"
        ) from None


def _warn_of_seeds() -> None:
    warnings.warn(
        "The dataset has no column `seed`, so that the members of a group play different episodes, "
        "and their rewards do not compare. openenv_gym.trl.rows makes rows with seeds; a column of "
        "None says that this is meant.",
        UserWarning,
        stacklevel=3,
    )


def _trl_release() -> tuple[int, ...]:
    try:
        version = importlib.metadata.version("trl")
    except importlib.metadata.PackageNotFoundError:
        return _OWNS_REWARD  # nobody will take it for a tool
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
