"""Measures one environment in several places, in turns: what ``openenv-gym bench`` shows.

Rounds are interleaved (A B A B), so that a machine which slows down for a while slows all of them,
and a figure is the median of the rounds. Drawing actions is not measured; resets are, as they are
in training.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array
from gymnasium.wrappers import OrderEnforcing, TimeLimit

from openenv_gym.policies import Chance, describe_calls
from openenv_gym.registration import CatalogueEntry, lookup
from openenv_gym.registration.make import session_options
from openenv_gym.vector.infos import info_of


__all__ = ["PARTS", "Figures", "Subject", "measure", "subjects"]

PARTS = ("environment", "queue", "wire", "encode", "decode")
"""Where the time of a step goes that is taken elsewhere."""

_SEED = 7
_ROUND_S = 0.3  # so long a round of the slowest takes where nobody says how many steps it has
_MOST_STEPS = 5_000


@dataclass(frozen=True)
class Subject:
    """A place where the environment runs.

    Attributes:
        name: As tables show it.
        where: ``"local"``, ``"process"`` or ``"container"``.
        num_envs: Sub-environments; 0: one environment, and no vector.
        make: Makes it.
    """

    name: str
    where: str
    num_envs: int
    make: Callable[[], Any]


@dataclass
class Figures:
    """What was measured of one subject.

    Attributes:
        subject: Of which.
        steps: Steps of each round; one of a vector moves all.
        rounds: Seconds for a step, in each round.
        parts: Seconds of a step by `PARTS`, medians of the rounds; empty where nothing travels.
        observation_bytes: Size of the observation of one environment; None where it is no array.
        num_servers: Servers over which they are spread; 0 where there is none.
        problem: Why there are no figures.
    """

    subject: Subject
    steps: int = 0
    rounds: list[float] = field(default_factory=list)
    parts: dict[str, float] = field(default_factory=dict)
    observation_bytes: int | None = None
    num_servers: int = 0
    problem: str | None = None

    @property
    def step_s(self) -> float:
        """Seconds for a step: the median of the rounds."""
        return statistics.median(self.rounds)

    @property
    def rate(self) -> float:
        """Steps of single environments in a second."""
        return max(self.subject.num_envs, 1) / self.step_s


def subjects(
    entry: CatalogueEntry, options: dict[str, Any], num_envs: int, how: dict[str, Any]
) -> list[Subject]:
    """Return where an environment is to be measured.

    Args:
        entry: Which one.
        options: What it is made with.
        num_envs: Sub-environments of the vectors; 0: no vectors.
        how: Keyword arguments of `gymnasium.make_vec` alone: ``num_servers``, ``engine``.
    """
    local = functools.partial(make_local, entry.id, options)
    found = [Subject("in this process", "local", 0, local)]
    places: dict[str, Any] = {"process": "process", "container": _containers}
    for where, provider in places.items():
        found.append(
            Subject(f"in a {where}", where, 0, functools.partial(_one, entry, options, provider))
        )
    if num_envs:
        made = [local] * num_envs
        found += [
            Subject("SyncVectorEnv", "local", num_envs, functools.partial(SyncVectorEnv, made)),
            # Spawned: this process has threads, and a fork of it might hang.
            Subject(
                "AsyncVectorEnv",
                "local",
                num_envs,
                functools.partial(AsyncVectorEnv, made, context="spawn"),
            ),
        ]
        for where, provider in places.items():
            make = functools.partial(_vector, entry, {**options, **how}, num_envs, provider)
            found.append(Subject(f"vector in a {where}", where, num_envs, make))
    return found


def make_local(env_id: str, options: dict[str, Any]) -> gymnasium.Env[Any, Any]:
    """Make, in this process, the very environment that a server has."""
    from openenv_gym.server import load_app

    entry = lookup(env_id)
    assert entry.package is not None
    given = session_options(entry, None, {**entry.kwargs, **options})
    host = load_app(entry.package).open(given)
    env: gymnasium.Env[Any, Any] = host.env
    if entry.order_enforce:
        env = OrderEnforcing(env)
    limit = entry.max_episode_steps or host.time_limit
    return env if limit is None else TimeLimit(env, limit)


def measure(
    chosen: Sequence[Subject],
    *,
    steps: int | None,
    rounds: int,
    say: Callable[[str], None] = lambda text: None,
) -> list[Figures]:
    """Measure subjects in turns.

    Args:
        chosen: The subjects. One that cannot be made is left out, and its figures say why.
        steps: Steps of each round; None: as many as take the slowest about 0.3 s.
        rounds: How many rounds each has, after one that does not count.
        say: Is told what is being done.

    Returns:
        Figures of each, in the same order.
    """
    figures = [Figures(subject) for subject in chosen]
    with ExitStack() as stack:
        players: list[tuple[Figures, _Player]] = []
        described: dict[str, Any] | None = None  # by the first: Gymnasium's vectors do not tell
        for each in figures:
            say(f"starting: {each.subject.name}")
            try:
                env = each.subject.make()
                stack.callback(env.close)
                described = described or describe_calls(env)
                player = _Player(env, each.subject.num_envs, described)
                each.steps = steps or _fitting(player)
                player.round(each.steps)  # caches, sockets' windows, clock rates
            except Exception as error:  # whatever an environment or a provider says
                lines = str(error).strip().splitlines()
                each.problem = f"{type(error).__name__}: {lines[0] if lines else ''}"
                continue
            each.observation_bytes = player.observation_bytes
            each.num_servers = player.num_servers
            players.append((each, player))
        collected: dict[int, list[dict[str, float]]] = defaultdict(list)
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for place, (each, player) in enumerate(players):
                seconds, parts = player.round(each.steps)
                each.rounds.append(seconds / each.steps)
                collected[place].append(parts)
    for place, (each, _) in enumerate(players):
        each.parts = {
            name: statistics.median(parts[name] for parts in collected[place])
            for name in PARTS
            if all(name in parts for parts in collected[place])
        }
    return figures


def _fitting(player: _Player) -> int:
    """Return how many steps take about as long as a round should."""
    steps = 8
    while True:
        seconds, _ = player.round(steps)
        if seconds >= _ROUND_S / 4 or steps >= _MOST_STEPS:
            return max(min(int(steps * _ROUND_S / max(seconds, 1e-9)), _MOST_STEPS), 1)
        steps *= 4


class _Player:
    """Plays by chance, and measures what the environment's own calls take."""

    def __init__(self, env: Any, num_envs: int, described: dict[str, Any] | None) -> None:
        self._env = env
        self._num_envs = num_envs
        self._space = env.single_action_space if num_envs else env.action_space
        self._chance = Chance(self._space, max(num_envs, 1), described)
        for number in range(max(num_envs, 1)):
            self._chance.seed(number, _SEED + number)
        self._observation, self._info = env.reset(seed=_SEED)
        base = env.unwrapped
        self._timing = getattr(base, "timing", None) if _is_ours(base) else None
        fleet = getattr(base, "_fleet", None)
        self.num_servers = 0 if self._timing is None else len(fleet.members) if fleet else 1

    @property
    def observation_bytes(self) -> int | None:
        """Size of the observation of one environment."""
        if not isinstance(self._observation, np.ndarray):
            return None
        return self._observation.nbytes // max(self._num_envs, 1)

    def round(self, steps: int) -> tuple[float, dict[str, float]]:
        """Take some steps; return the seconds that they took, and where those of a step went."""
        clock = time.perf_counter
        taken_s = 0.0
        parts: dict[str, float] = defaultdict(float)
        for _ in range(steps):
            action = self._actions()
            begin_s = clock()
            self._observation, _, terminated, truncated, info = self._env.step(action)
            taken_s += clock() - begin_s
            self._info = info
            if self._timing is not None and self._num_envs:
                for name, seconds in self._timing().items():
                    parts[name] += seconds / steps
            if not self._num_envs and (terminated or truncated):
                begin_s = clock()
                self._observation, self._info = self._env.reset()
                taken_s += clock() - begin_s
        if self._timing is not None and not self._num_envs:
            parts = self._timing()
        return taken_s, {name: parts[f"{name}_s"] for name in PARTS if f"{name}_s" in parts}

    def _actions(self) -> Any:
        if not self._num_envs:
            return self._chance.draw(0, self._info.get("action_mask"))
        masked = "action_mask" in self._info
        actions = [
            self._chance.draw(
                number, info_of(self._info, number).get("action_mask") if masked else None
            )
            for number in range(self._num_envs)
        ]
        batch: Any = create_empty_array(self._space, self._num_envs)
        return concatenate(self._space, actions, batch)


def _is_ours(env: Any) -> bool:
    return type(env).__module__.startswith("openenv_gym.") and hasattr(env, "timing")


def _one(entry: CatalogueEntry, options: dict[str, Any], provider: Any) -> Any:
    provider = provider() if callable(provider) else provider
    return gymnasium.make(entry.id, provider=provider, disable_env_checker=True, **options)


def _vector(entry: CatalogueEntry, options: dict[str, Any], num_envs: int, provider: Any) -> Any:
    provider = provider() if callable(provider) else provider
    return gymnasium.make_vec(entry.id, num_envs=num_envs, provider=provider, **options)


def _containers() -> Any:
    """Return a provider that takes an image that is there: a build is no part of a measurement."""
    from openenv_gym.providers import DockerProvider

    return DockerProvider(build="never")
