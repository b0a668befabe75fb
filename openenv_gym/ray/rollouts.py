"""What was collected, in columns: observations, actions, rewards, and a table of episodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import numpy.typing as npt

from openenv_gym.errors import ProtocolError
from openenv_gym.vector.batches import Rows, batches_of


__all__ = ["Episode", "Rollouts", "merge"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Episode(NamedTuple):
    """One episode, or what was played of it.

    Attributes:
        rollout: Number of its rollout.
        seed: With which that one was begun; its first episode is one after ``reset(seed=seed)``.
        observations: A batch of T + 1: each that was acted on, and the last one.
        actions: A batch of T.
        rewards: float64 of shape (T,).
        terminated: Its last step ended it.
        truncated: A limit cut it in its last step. Neither: it was going on when the rollout ended.
    """

    rollout: int
    seed: int
    observations: Any
    actions: Any
    rewards: npt.NDArray[np.float64]
    terminated: bool
    truncated: bool


@dataclass(frozen=True, eq=False)
class Rollouts:
    """Steps of several rollouts, in the order of the rollouts, and of time within each.

    A batch is what Gymnasium makes of several samples: an array whose first dimension counts them,
    or a dict or tuple of such, or, where nothing can be stacked, a tuple of samples. With n steps
    in e episodes:

    Attributes:
        observation_space: Of one sub-environment.
        action_space: Likewise.
        observations: A batch of n + e: each episode has one more than it has steps.
        actions: A batch of n.
        rewards: float64 of shape (n,).
        rollout: int64 of shape (e,): the rollout to which each episode belongs.
        seed: int64 of shape (e,): with what that rollout was begun.
        length: int64 of shape (e,): steps of each episode, at least 1.
        terminated: bool of shape (e,).
        truncated: bool of shape (e,). Where neither is true, the rollout ended in mid-episode.
    """

    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    observations: Any
    actions: Any
    rewards: npt.NDArray[np.float64]
    rollout: Ints
    seed: Ints
    length: Ints
    terminated: Bools
    truncated: Bools

    @property
    def num_steps(self) -> int:
        """How many steps there are."""
        return len(self.rewards)

    @property
    def num_episodes(self) -> int:
        """How many episodes there are, those included that the end of their rollout cut."""
        return len(self.length)

    @cached_property
    def starts(self) -> Ints:
        """First step of each episode, int64 of shape (e,)."""
        return np.cumsum(self.length) - self.length

    @cached_property
    def returns(self) -> npt.NDArray[np.float64]:
        """Sum of the rewards of each episode, float64 of shape (e,)."""
        return np.add.reduceat(self.rewards, self.starts) if self.num_episodes else np.zeros(0)

    def episode(self, number: int) -> Episode:
        """Return one episode; views of the columns where those are arrays.

        Raises:
            IndexError: There is none of this number.
        """
        number = range(self.num_episodes)[number]
        start, length = int(self.starts[number]), int(self.length[number])
        first = start + number
        return Episode(
            int(self.rollout[number]),
            int(self.seed[number]),
            self._observations(slice(first, first + length + 1)),
            batches_of(self.action_space).take(self.actions, slice(start, start + length)),
            self.rewards[start : start + length],
            bool(self.terminated[number]),
            bool(self.truncated[number]),
        )

    def __iter__(self) -> Iterator[Episode]:
        return (self.episode(number) for number in range(self.num_episodes))

    def transitions(self) -> dict[str, Any]:
        """Return a row for each step, as trainers take them.

        Returns:
            ``observations`` and ``next_observations`` (batches of n), ``actions``, ``rewards``,
            ``terminations`` and ``truncations`` (bool of shape (n,)), ``rollouts`` (int64 of
            shape (n,)).
        """
        before = np.arange(self.num_steps) + np.repeat(np.arange(self.num_episodes), self.length)
        last = self.starts + self.length - 1
        terminations = np.zeros(self.num_steps, np.bool_)
        truncations = np.zeros(self.num_steps, np.bool_)
        terminations[last] = self.terminated
        truncations[last] = self.truncated
        return {
            "observations": self._observations(before),
            "next_observations": self._observations(before + 1),
            "actions": self.actions,
            "rewards": self.rewards,
            "terminations": terminations,
            "truncations": truncations,
            "rollouts": np.repeat(self.rollout, self.length),
        }

    def _observations(self, rows: Rows) -> Any:
        return batches_of(self.observation_space).take(self.observations, rows)

    def __repr__(self) -> str:
        rollouts = len(np.unique(self.rollout))
        return (
            f"<{self.num_steps:,} steps in {self.num_episodes:,} episodes of {rollouts:,} rollouts>"
        )


def merge(parts: Sequence[Rollouts], *, copy: bool = False) -> Rollouts:
    """Return one result made of several, each with rollouts that follow each other.

    Args:
        parts: At least one, in any order.
        copy: Also one alone is copied, into memory of its own.

    Raises:
        ProtocolError: A rollout is in two of them.
    """
    parts = sorted(parts, key=lambda part: int(part.rollout[0]))
    for one, next_one in itertools.pairwise(parts):
        if one.rollout[-1] >= next_one.rollout[0]:
            raise ProtocolError(f"Rollout {next_one.rollout[0]} is there twice.")
    first = parts[0]
    if len(parts) == 1 and not copy:
        return first
    return Rollouts(
        first.observation_space,
        first.action_space,
        _join(first.observation_space, [p.observations for p in parts], [_rows(p) for p in parts]),
        _join(first.action_space, [p.actions for p in parts], [p.num_steps for p in parts]),
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("rewards", "rollout", "seed", "length", "terminated", "truncated")
        ),
    )


def _rows(part: Rollouts) -> int:
    return part.num_steps + part.num_episodes


def _join(space: gymnasium.Space[Any], batches: Sequence[Any], counts: Sequence[int]) -> Any:
    ends = np.cumsum(counts)
    places = [slice(int(end) - count, int(end)) for end, count in zip(ends, counts, strict=True)]
    return batches_of(space).join(list(zip(places, batches, strict=True)), int(ends[-1]))
