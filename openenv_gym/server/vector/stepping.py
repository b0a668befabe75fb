"""Steps of sub-environments with their autoreset: three short loops, where the time goes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode

from openenv_gym.server.vector.observations import detached


__all__ = ["STEPPERS", "Members", "Outcome", "Stepper", "close_quietly"]

_log = logging.getLogger(__name__)


class Members:
    """Sub-environments, and what is due for each.

    Args:
        envs: The sub-environments.

    Attributes:
        envs: The same.
        steps: Their bound methods.
        resets: Likewise.
        due: By index, whether the next step only resets.
        started: By index, whether it was reset at least once.
        over: By index, whether it must be reset before the next step; in `DISABLED` only.
    """

    def __init__(self, envs: Sequence[gymnasium.Env[Any, Any]]) -> None:
        count = len(envs)
        self.envs = list(envs)
        self.steps: list[Callable[[Any], Any]] = [env.step for env in envs]
        self.resets: list[Callable[..., Any]] = [env.reset for env in envs]
        self.due = [False] * count
        self.started = [False] * count
        self.over = [False] * count


class Outcome:
    """What a request brought, by index of the sub-environment.

    Attributes:
        observations: None for those that were not asked.
        rewards: 0.0 where a step only reset.
        terminations: Truth values, as the environment has them.
        truncations: Likewise.
        infos: Infos, or None.
        finals: For those whose episode ended in `SAME_STEP`: last observation and info of it.
        failures: What sub-environments raised, in the order in which they did.
    """

    __slots__ = (
        "failures",
        "finals",
        "infos",
        "observations",
        "rewards",
        "terminations",
        "truncations",
    )

    def __init__(self, count: int) -> None:
        self.observations: list[Any] = [None] * count
        self.rewards: list[Any] = [0.0] * count
        self.terminations: list[Any] = [False] * count
        self.truncations: list[Any] = [False] * count
        self.infos: list[Any] = [None] * count
        self.finals: dict[int, dict[str, Any]] = {}
        self.failures: list[tuple[int, BaseException]] = []


Stepper = Callable[[Members, Iterable[int], Sequence[Any], Outcome], None]
"""Steps the sub-environments with these indices; actions and outcome are by index, too.

Several threads may take indices from one iterator, as each touches only what belongs to its own.
"""


def _step_next(
    members: Members, indices: Iterable[int], actions: Sequence[Any], outcome: Outcome
) -> None:
    steps, resets, due = members.steps, members.resets, members.due
    observations, rewards, infos = outcome.observations, outcome.rewards, outcome.infos
    terminations, truncations = outcome.terminations, outcome.truncations
    for i in indices:
        try:
            if due[i]:
                due[i] = False
                observations[i], infos[i] = resets[i]()
            else:
                observations[i], rewards[i], terminated, truncated, infos[i] = steps[i](actions[i])
                if terminated or truncated:
                    due[i] = True
                    terminations[i], truncations[i] = terminated, truncated
        except BaseException as error:  # an environment may well call sys.exit()
            outcome.failures.append((i, error))


def _step_same(
    members: Members, indices: Iterable[int], actions: Sequence[Any], outcome: Outcome
) -> None:
    steps, resets = members.steps, members.resets
    observations, rewards, infos = outcome.observations, outcome.rewards, outcome.infos
    terminations, truncations = outcome.terminations, outcome.truncations
    for i in indices:
        try:
            observation, rewards[i], terminated, truncated, info = steps[i](actions[i])
            if terminated or truncated:
                terminations[i], truncations[i] = terminated, truncated
                # Copied before the reset, which may write into the very same arrays.
                outcome.finals[i] = {
                    "final_obs": detached(observation),
                    "final_info": detached(info),
                }
                observation, info = resets[i]()
            observations[i], infos[i] = observation, info
        except BaseException as error:
            outcome.failures.append((i, error))


def _step_disabled(
    members: Members, indices: Iterable[int], actions: Sequence[Any], outcome: Outcome
) -> None:
    steps, over = members.steps, members.over
    observations, rewards, infos = outcome.observations, outcome.rewards, outcome.infos
    terminations, truncations = outcome.terminations, outcome.truncations
    for i in indices:
        try:
            observations[i], rewards[i], terminated, truncated, infos[i] = steps[i](actions[i])
            if terminated or truncated:
                over[i] = True
                terminations[i], truncations[i] = terminated, truncated
        except BaseException as error:
            outcome.failures.append((i, error))


STEPPERS: dict[AutoresetMode, Stepper] = {
    AutoresetMode.NEXT_STEP: _step_next,
    AutoresetMode.SAME_STEP: _step_same,
    AutoresetMode.DISABLED: _step_disabled,
}


def close_quietly(env: Any) -> None:
    """Close an environment, and log what it raises: others wait for their turn."""
    try:
        env.close()
    except BaseException:
        _log.exception("close() of a sub-environment failed")
