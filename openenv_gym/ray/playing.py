"""Rollouts in a vector environment: who acts, what is kept, when a rollout is over.

Nothing here knows of Ray. What a batch of rollouts gives depends on its seeds, on what is asked
of each and on who acts, and on nothing that was played before.
"""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
from gymnasium.vector.utils import concatenate, create_empty_array

from openenv_gym.errors import InvalidOptionError
from openenv_gym.policies import Chance, describe_calls
from openenv_gym.ray.rollouts import Rollouts
from openenv_gym.vector.batches import batches_of
from openenv_gym.vector.infos import renew_infos


__all__ = ["Actor", "Amount", "load_actor", "play"]


@dataclass(frozen=True)
class Amount:
    """What each rollout is to have.

    Attributes:
        count: How many.
        of: ``"steps"``, over as many episodes as they take; or whole ``"episodes"``.
    """

    count: int
    of: Literal["steps", "episodes"]


class Actor(Protocol):
    """Chooses actions for all sub-environments at once."""

    def begin(self, row: int, seed: int) -> None:
        """A rollout with this seed begins in a sub-environment."""

    def act(self, observations: Any, infos: dict[str, Any]) -> Any:
        """Return a batch of actions."""


def load_actor(policy: Any, weights: Any, envs: Any) -> Actor:
    """Return who acts in a vector environment.

    Args:
        policy: ``"random"``; ``"module:function"``; or a function. It takes a batch of
            observations, or also the infos, or also a list with a generator for each
            sub-environment, which was seeded with its rollout; and returns a batch of actions.
        weights: Where there are some, `policy` is called with them once, and returns that
            function.
        envs: Where it acts.

    Raises:
        InvalidOptionError: There is no such function.
    """
    if policy == "random" and weights is None:
        return _Random(envs)
    if isinstance(policy, str):
        policy = _imported(policy)
    if not callable(policy):
        raise InvalidOptionError(
            f"policy={policy!r:.80}: expected 'random', 'module:function' or a function.",
            field="policy",
        )
    function = policy if weights is None else policy(weights)
    return _Function(function, envs.num_envs)


class _Random:
    def __init__(self, envs: Any) -> None:
        self._space = envs.single_action_space
        self._num_envs = envs.num_envs
        self._chance = Chance(self._space, envs.num_envs, describe_calls(envs))

    def begin(self, row: int, seed: int) -> None:
        self._chance.seed(row, seed)

    def act(self, observations: Any, infos: dict[str, Any]) -> Any:
        masks, present = infos.get("action_mask"), infos.get("_action_mask")
        actions = [
            self._chance.draw(
                row, None if masks is None or (present is not None and not present[row]) else mask
            )
            for row, mask in enumerate(masks if masks is not None else [None] * self._num_envs)
        ]
        # A new one each time: it is kept as what was done.
        batch: Any = create_empty_array(self._space, self._num_envs)
        return concatenate(self._space, actions, batch)


class _Function:
    def __init__(self, function: Callable[..., Any], num_envs: int) -> None:
        self._function = function
        self._takes = _arguments_of(function)
        self._generators = [np.random.default_rng(0) for _ in range(num_envs)]

    def begin(self, row: int, seed: int) -> None:
        self._generators[row] = np.random.default_rng(seed)

    def act(self, observations: Any, infos: dict[str, Any]) -> Any:
        actions = self._function(*(observations, infos, self._generators)[: self._takes])
        # It is kept as what was done, and may be memory that the function uses again, at any depth.
        return copy.deepcopy(actions)


def _imported(text: str) -> Any:
    module, _, name = text.partition(":")
    try:
        found = importlib.import_module(module) if module and name.isidentifier() else None
    except ModuleNotFoundError as error:
        raise InvalidOptionError(
            f"policy={text!r}: {error}.", field="policy", hint="Is it installed on every node?"
        ) from error
    function = getattr(found, name, None)
    if not callable(function):
        raise InvalidOptionError(
            f"policy={text!r}: expected 'random', or 'module:function' that names a function.",
            field="policy",
        )
    return function


def _arguments_of(function: Callable[..., Any]) -> int:
    """Return how many of three arguments a function takes by their position."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return 1
    for count in (3, 2):
        try:
            signature.bind(*[None] * count)
        except TypeError:
            continue
        return count
    return 1


def play(
    envs: Any,
    actor: Actor,
    seeds: Sequence[int],
    amount: Amount,
    *,
    first: int = 0,
) -> Rollouts:
    """Play a rollout for each seed, as many at a time as there are sub-environments.

    Args:
        envs: A `gymnasium.vector.VectorEnv` whose autoreset mode is ``NEXT_STEP``; each of its
            steps returns observations in memory of their own.
        actor: Who acts.
        seeds: Of the rollouts. A sub-environment whose rollout is over takes the next of them.
        amount: What each rollout is to have.
        first: Number of the first rollout.

    Returns:
        The rollouts, in the order of their seeds.
    """
    return _Play(envs, actor, seeds, amount, first).run()


@dataclass
class _Span:
    """An episode while it is recorded: a sub-environment, and from when on.

    Attributes:
        rollout: Which of the seeds.
        row: The sub-environment.
        begin: Number of the step before which its first observation is.
        end: Number of the step after its last one.
        last: Where its last observation is; None: where that of step `end` is.
        terminated: See `Rollouts`.
        truncated: Likewise.
    """

    rollout: int
    row: int
    begin: int
    end: int = 0
    last: int | None = None
    terminated: bool = False
    truncated: bool = False


@dataclass
class _Recording:
    """What came, as it came: a batch for each step."""

    observations: list[Any] = field(default_factory=list)
    actions: list[Any] = field(default_factory=list)
    rewards: list[npt.NDArray[np.float64]] = field(default_factory=list)
    lasts: list[Any] = field(default_factory=list)
    spans: list[_Span] = field(default_factory=list)


class _Play:
    def __init__(
        self,
        envs: Any,
        actor: Actor,
        seeds: Sequence[int],
        amount: Amount,
        first: int,
    ) -> None:
        self._envs = envs
        self._actor = actor
        self._seeds = seeds
        self._amount = amount
        self._first = first
        self._next = 0
        self._observations = batches_of(envs.single_observation_space)
        self._kept = _Recording()
        count = envs.num_envs
        self._rollout = np.full(count, -1)  # -1: nothing is left to play there
        self._done = np.zeros(count, np.int64)  # steps, or episodes, of the rollout
        self._over = np.zeros(count, np.bool_)  # the next step resets, and is none
        self._spans: list[_Span | None] = [None] * count

    def run(self) -> Rollouts:
        envs, kept = self._envs, self._kept
        # Rows without a rollout are played along: with seeds that count up, which some engines ask
        # for, and so that what they do is always the same.
        spare = self._seeds[-1] + 1
        seeds = [*self._seeds, *range(spare, spare + envs.num_envs)][: envs.num_envs]
        observations, infos = envs.reset(seed=list(seeds))
        for row, seed in enumerate(seeds):
            self._begin(row, 0, seed)
        by_steps = self._amount.of == "steps"
        step = 0
        while (self._rollout >= 0).any():
            actions = self._actor.act(observations, infos)
            kept.observations.append(observations)
            kept.actions.append(actions)
            observations, rewards, terminated, truncated, infos = envs.step(actions)
            kept.rewards.append(rewards)
            playing = ~self._over
            for row in np.flatnonzero(self._over).tolist():
                self._open(row, step + 1)
            self._over = playing & (terminated | truncated)
            self._done += playing if by_steps else self._over
            finished = (self._rollout >= 0) & playing & (self._done >= self._amount.count)
            for row in np.flatnonzero(self._over | finished).tolist():
                self._close(row, step + 1, bool(terminated[row]), bool(truncated[row]))
            step += 1
            if finished.any():
                observations, infos = self._refill(observations, infos, finished, step)
        kept.observations.append(observations)
        return self._columns()

    def _begin(self, row: int, step: int, seed: int) -> None:
        """Begin the next rollout in a row; where there is none, the row only plays along."""
        there = self._next < len(self._seeds)
        self._rollout[row] = self._next if there else -1
        self._next += there
        self._actor.begin(row, seed)
        self._done[row] = 0
        self._over[row] = False
        self._open(row, step)

    def _open(self, row: int, step: int) -> None:
        rollout = int(self._rollout[row])
        self._spans[row] = _Span(rollout, row, step) if rollout >= 0 else None

    def _close(self, row: int, step: int, terminated: bool, truncated: bool) -> None:
        span = self._spans[row]
        if span is not None:
            span.end, span.terminated, span.truncated = step, terminated, truncated
            self._kept.spans.append(span)
            self._spans[row] = None

    def _refill(
        self, observations: Any, infos: dict[str, Any], finished: Any, step: int
    ) -> tuple[Any, dict[str, Any]]:
        """Begin rollouts where others are over; return observations and infos to act on."""
        again = np.zeros_like(finished)
        seeds: list[int | None] = [None] * len(finished)
        for row in np.flatnonzero(finished).tolist():
            if self._next == len(self._seeds):
                self._rollout[row] = -1
                continue
            span = self._kept_span(row, step)
            span.last = len(self._kept.lasts)
            self._kept.lasts.append(self._observations.take(observations, np.array([row])))
            again[row] = True
            seeds[row] = seed = self._seeds[self._next]
            self._begin(row, step, seed)
        if not again.any():
            return observations, infos
        fresh, fresh_infos = self._envs.reset(seed=seeds, options={"reset_mask": again})
        return fresh, renew_infos(infos, fresh_infos, again)

    def _kept_span(self, row: int, end: int) -> _Span:
        return next(
            span for span in reversed(self._kept.spans) if span.row == row and span.end == end
        )

    def _columns(self) -> Rollouts:
        """Put the episodes one after the other."""
        kept, envs = self._kept, self._envs
        num_envs, times = envs.num_envs, len(kept.actions)
        spans = sorted(kept.spans, key=lambda span: (span.rollout, span.begin))
        length = np.array([span.end - span.begin for span in spans], np.int64)
        # A row of all that came is step * num_envs + sub-environment; what a new rollout took the
        # place of comes after those.
        steps = [np.arange(s.begin, s.end) * num_envs + s.row for s in spans]
        lasts = [
            s.end * num_envs + s.row if s.last is None else (times + 1) * num_envs + s.last
            for s in spans
        ]
        seen = np.concatenate(
            [part for s, e in zip(steps, lasts, strict=True) for part in (s, [e])]
        )
        done = np.concatenate(steps)
        parts = [
            (slice(time * num_envs, (time + 1) * num_envs), batch)
            for time, batch in enumerate(kept.observations)
        ]
        total = len(parts) * num_envs
        parts += [(slice(total + n, total + n + 1), last) for n, last in enumerate(kept.lasts)]
        observations = self._observations.join(parts, total + len(kept.lasts))
        actions = batches_of(envs.single_action_space)
        done_actions = actions.join(
            [
                (slice(time * num_envs, (time + 1) * num_envs), batch)
                for time, batch in enumerate(kept.actions)
            ],
            times * num_envs,
        )
        rollout = np.array([span.rollout for span in spans], np.int64)
        return Rollouts(
            envs.single_observation_space,
            envs.single_action_space,
            self._observations.take(observations, seen),
            actions.take(done_actions, done),
            np.concatenate(kept.rewards)[done].astype(np.float64, copy=False),
            rollout + self._first,
            np.asarray(self._seeds, np.int64)[rollout],
            length,
            np.array([span.terminated for span in spans], np.bool_),
            np.array([span.truncated for span in spans], np.bool_),
        )
