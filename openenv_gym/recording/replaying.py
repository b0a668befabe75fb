"""`replay`: the recorded actions, taken again, and every bit of what comes back compared."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array

from openenv_gym.errors import RecordingError
from openenv_gym.recording.comparing import Fork, first_fork, without, without_keys
from openenv_gym.recording.describing import is_partial
from openenv_gym.recording.episodes import SAME_STEP
from openenv_gym.recording.making import make_again
from openenv_gym.recording.reader import Reset, RolloutFile, Step
from openenv_gym.server.vector.infos import add_info
from openenv_gym.vector.batches import batches_of
from openenv_gym.vector.infos import info_of


__all__ = ["TIMES", "Difference", "ReplayResult", "replay"]

TIMES = ("episode.t",)
"""Infos that tell times: the seconds of Gymnasium's `RecordEpisodeStatistics`."""

_RESTARTED = "server_restarted"
_FIELDS = ("observation", "reward", "terminated", "truncated", "info")

OnFrame = Callable[[Any], None]


class Difference(NamedTuple):
    """The first difference between a recording and its replay.

    Attributes:
        path: Where: ``observation['board'][2, 3]``, ``reward``, ``info['lives']``.
        step: Step of the file; for a reset the one that would have followed.
        of_reset: It is in what a reset returned.
        episode: Number of the episode; None where the step belongs to none.
        episode_step: Step of the episode, from 0.
        sub_env: Sub-environment of a vector; None where that cannot be told, or there is none.
        recorded: What is in the recording.
        replayed: What came now.
    """

    path: str
    step: int
    of_reset: bool
    episode: int | None
    episode_step: int | None
    sub_env: int | None
    recorded: Any
    replayed: Any

    def __str__(self) -> str:
        if self.of_reset:
            where = f"the reset before step {self.step}"
        elif self.episode is not None:
            where = f"episode {self.episode}, step {self.episode_step}"
        else:
            where = f"step {self.step}"
        if self.sub_env is not None:
            where += f", sub-environment {self.sub_env}"
        shown = reprlib.Repr()
        shown.maxstring = shown.maxother = 120
        return (
            f"{where}: {self.path} was {shown.repr(self.recorded)}, is {shown.repr(self.replayed)}"
        )


@dataclass
class ReplayResult:
    """What came of a replay.

    Attributes:
        steps: Steps that are the same, to the bit.
        resets: The same of resets.
        episodes: Episodes of the file all of whose steps were compared.
        difference: The first difference; None where there is none.
        ignored: Infos that were left out, in the recording or of the comparison.
        notes: What else is to be known, in sentences.
    """

    steps: int = 0
    resets: int = 0
    episodes: int = 0
    difference: Difference | None = None
    ignored: tuple[str, ...] = TIMES
    notes: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Everything that was compared is the same, and something was."""
        return self.difference is None and self.steps + self.resets > 0


def replay(
    file: RolloutFile,
    *,
    env: Any = None,
    sub_env: int | None = None,
    ignore: Collection[str] = (),
    on_frame: OnFrame | None = None,
    until_step: int | None = None,
    **placement: Any,
) -> ReplayResult:
    """Take the recorded actions again, and compare what comes back; stop at a difference.

    Args:
        file: The recording.
        env: An environment like the recorded one, a vector where that was one; it stays open. None:
            it is made as the file says, and closed.
        sub_env: Play this sub-environment of a vector by itself.
        ignore: Dotted names of infos that are left out, beside `TIMES` and what is not in the
            recording (``leave_out``).
        on_frame: Gets what `render` returns after each reset and step.
        until_step: Stop before this step of the file.
        **placement: Where the environment is made: ``provider``, ``base_url`` and the like; and
            ``render_mode``.

    Raises:
        RecordingError: It cannot be made, or was recorded without a seed.
        RecordingDamagedError: A chunk cannot be read.
        gymnasium.error.Error: The environment cannot be made.
    """
    if sub_env is not None and not 0 <= sub_env < file.num_envs:
        raise RecordingError(
            f"There is no sub-environment {sub_env} among {file.num_envs}.", field="sub_env"
        )
    rows = _single_rows(file, sub_env) if sub_env is not None else file.rows()
    _check_seed(file, sub_env)
    made = env is None
    if made:
        env = make_again(file, single=sub_env is not None, **placement)
    try:
        return _Player(file, env, sub_env, (*TIMES, *ignore), on_frame).play(rows, until_step)
    finally:
        if made:
            env.close()


def _check_seed(file: RolloutFile, sub_env: int | None) -> None:
    first = next(file.rows(), None)
    if isinstance(first, Reset) and first.seed is not None:
        seeds = first.seed
        if sub_env is not None and isinstance(seeds, (list, tuple, np.ndarray)):
            seeds = [seeds[sub_env]]
        if not is_partial(seeds):
            return
    raise RecordingError(
        "The recording begins without a seed, so nobody can play it again."
        if isinstance(first, Reset)
        else "The recording does not begin with a reset.",
        field="seed",
        hint="Wrap the environment before its first reset, without seed_first_reset=False.",
    )


class _Player:
    def __init__(
        self,
        file: RolloutFile,
        env: Any,
        sub_env: int | None,
        ignored: tuple[str, ...],
        on_frame: OnFrame | None,
    ) -> None:
        self._file = file
        self._env = env
        self._sub_env = sub_env
        self._ignored = ignored
        self._on_frame = on_frame
        self._as_batch = None
        if sub_env is not None:
            self._as_batch = _AsBatch(_known(file.observation_space))
        left_out = _left_out(file)
        self._left_out = frozenset(left_out) | {f"_{key}" for key in left_out if file.num_envs}
        self._result = ReplayResult(ignored=(*ignored, *map(str, left_out)))

    def play(self, rows: Iterator[Reset | Step], until_step: int | None) -> ReplayResult:
        result, last = self._result, -1
        for row in rows:
            number = row.at if isinstance(row, Reset) else row.number
            if until_step is not None and number >= until_step:
                break
            if isinstance(row, Step) and isinstance(row.info, dict) and _RESTARTED in row.info:
                result.notes = (
                    f"The server of a sub-environment was started anew in step {number}, and went "
                    "on unseeded: what follows was not compared.",
                )
                break
            difference = self._reset(row) if isinstance(row, Reset) else self._step(row)
            if difference is not None:
                result.difference = difference
                break
            last = max(last, number if isinstance(row, Step) else -1)
            if self._on_frame is not None:
                self._on_frame(self._env.render())
        result.episodes = sum(
            episode.first_step + len(episode) <= last + 1
            for episode in self._file.episodes
            if self._sub_env in (None, episode.sub_env)
        )
        return result

    def _reset(self, row: Reset) -> Difference | None:
        observation, info = self._env.reset(seed=row.seed, options=row.options)
        if self._as_batch is not None:
            observation, info = self._as_batch.observation(observation), self._as_batch.info(info)
        for name, recorded, replayed in (
            ("observation", row.observation, observation),
            ("info", self._compared(row.info), self._compared(info)),
        ):
            if fork := first_fork(name, recorded, replayed):
                return self._difference(fork, name, recorded, row.at, of_reset=True)
        self._result.resets += 1
        return None

    def _step(self, row: Step) -> Difference | None:
        outcome = self._env.step(row.action)
        if self._as_batch is not None:
            outcome = self._as_batch.step(outcome)
        for name, replayed in zip(_FIELDS, outcome, strict=True):
            recorded = getattr(row, name)
            if name == "info":
                recorded, replayed = self._compared(recorded), self._compared(replayed)
            if fork := first_fork(name, recorded, replayed):
                return self._difference(fork, name, recorded, row.number, of_reset=False)
        self._result.steps += 1
        return None

    def _compared(self, info: Any) -> Any:
        return without(without_keys(info, self._left_out), self._ignored)

    def _difference(
        self, fork: Fork, name: str, recorded: Any, step: int, *, of_reset: bool
    ) -> Difference:
        sub_env = self._sub_env
        if sub_env is None and self._file.num_envs:
            space = self._file.observation_space if name == "observation" else None
            found = _row_of(fork.indices, recorded, space)
            sub_env = found if found is not None and found < self._file.num_envs else None
        episode = None
        if not of_reset and (sub_env is not None or not self._file.num_envs):
            episode = self._file.episodes.at(step, sub_env or 0)
        return Difference(
            fork.path,
            step,
            of_reset,
            None if episode is None else episode.number,
            None if episode is None else step - episode.first_step,
            sub_env,
            fork.recorded,
            fork.replayed,
        )


def _left_out(file: RolloutFile) -> list[str | int]:
    """Return the keys of infos that the recording has not."""
    keys = file.metadata.get("leave_out")
    return [key for key in keys if type(key) in (str, int)] if isinstance(keys, list) else []


def _row_of(indices: tuple[Any, ...], value: Any, space: Any) -> int | None:
    """Return the sub-environment to which a place in a batch belongs; None if none can be told.

    Args:
        indices: The place.
        value: The batch.
        space: Of one sample; None where maps in maps end in arrays, as infos do.
    """
    for index in indices:
        if isinstance(space, spaces.Tuple) and type(index) is int:
            # Not yet one of the rows: a tuple of batches, each of all sub-environments.
            value, space = _item(value, index), _item(space.spaces, index)
        elif isinstance(value, dict):
            inner = space.spaces if isinstance(space, spaces.Dict) else {}
            value, space = value.get(index), inner.get(index)
        else:
            return index if type(index) is int else None
    return None


def _item(values: Any, index: int) -> Any:
    inside = isinstance(values, (list, tuple)) and index < len(values)
    return values[index] if inside else None


class _AsBatch:
    """What a batch makes of the values of one environment: its own dtypes, arrays in infos."""

    def __init__(self, space: Any) -> None:
        self._space = space
        self._sample = batches_of(space).sample

    def observation(self, observation: Any) -> Any:
        memory: Any = create_empty_array(self._space, 1)
        return self._sample(concatenate(self._space, [observation], memory), 0)

    def info(self, info: dict[str, Any]) -> dict[str, Any]:
        batch: dict[str, Any] = {}
        add_info(batch, info, 0, 1)
        return info_of(batch, 0)

    def step(self, outcome: Any) -> tuple[Any, ...]:
        observation, reward, terminated, truncated, info = outcome
        return (
            self.observation(observation),
            np.float64(reward),
            bool(terminated),
            bool(truncated),
            self.info(info),
        )


def _single_rows(file: RolloutFile, sub_env: int) -> Iterator[Reset | Step]:
    """Yield what one sub-environment did, as an environment by itself would have it."""
    observations = batches_of(_known(file.observation_space)).sample
    actions = batches_of(_known(file.action_space)).sample
    as_batch = _AsBatch(file.observation_space)
    same_step = file.autoreset_mode == SAME_STEP
    over = False
    for row in file.rows():
        info = info_of(row.info, sub_env)
        observation = observations(row.observation, sub_env)
        if isinstance(row, Reset):
            options = dict(row.options) if row.options is not None else None
            mask = options.pop("reset_mask", None) if options else None
            if mask is not None and not mask[sub_env]:
                continue
            seed = row.seed
            if isinstance(seed, (list, tuple, np.ndarray)):
                seed = seed[sub_env]
            elif seed is not None:
                seed = int(seed) + sub_env
            seed = None if seed is None else int(seed)
            yield Reset(row.at, seed, options or None, observation, info)
            over = False
            continue
        if over:  # the step only resets
            yield Reset(row.number, None, None, observation, info)
            over = False
            continue
        terminated = bool(row.terminated[sub_env])
        truncated = bool(row.truncated[sub_env])
        final = info
        after = observation
        if same_step and (terminated or truncated):
            observation = as_batch.observation(info.pop("final_obs"))
            final = info.pop("final_info", {})
        yield Step(
            row.number,
            actions(row.action, sub_env),
            observation,
            row.reward[sub_env],
            terminated,
            truncated,
            final,
        )
        if same_step and (terminated or truncated):
            yield Reset(row.number + 1, None, None, after, info)
        else:
            over = terminated or truncated


def _known(space: Any) -> Any:
    if space is None:
        raise RecordingError(
            "The recording's spaces are of a class of somebody's own, so its batches cannot be "
            "taken apart.",
            field="sub_env",
        )
    return space
