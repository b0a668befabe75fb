"""Where episodes begin and end in a recording, and what each of them holds."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium import spaces

from openenv_gym.vector.batches import batches_of
from openenv_gym.vector.infos import info_of


if TYPE_CHECKING:
    from openenv_gym.recording.columns import Column
    from openenv_gym.recording.reader import RolloutFile

__all__ = ["Boundaries", "Episode", "Extent", "find_extents", "samples_of"]

NEXT_STEP, SAME_STEP = "NextStep", "SameStep"

Stack = tuple[Any, int]
"""Samples, as arrays in dicts and tuples, or as a list; and how many there are."""

_ARRAYS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


class Boundaries(NamedTuple):
    """Resets and ends of a recording, or of a chunk.

    Attributes:
        resets: Ahead of which steps there were resets. Shape (r,), int64.
        masked: Which of them chose sub-environments. Shape (k,), int64.
        masks: Which ones. Shape (k, num_envs), bool.
        ends: Step, sub-environment and flags (1 terminated, 2 truncated). Shape (n, 3), int64.
    """

    resets: np.ndarray[Any, Any]
    masked: np.ndarray[Any, Any]
    masks: np.ndarray[Any, Any]
    ends: np.ndarray[Any, Any]


class Extent(NamedTuple):
    """Where an episode is.

    Attributes:
        first_step: Its first step.
        sub_env: Its sub-environment; 0 where there is one environment.
        length: Its steps.
        reset: Number of the reset that began it; None where the vector did by itself.
        flags: 1 terminated, 2 truncated; 0 where it was cut off.
    """

    first_step: int
    sub_env: int
    length: int
    reset: int | None
    flags: int


def find_extents(
    boundaries: Boundaries, steps: int, num_envs: int, autoreset_mode: str | None
) -> list[Extent]:
    """Return the episodes with at least one step, in the order in which they began.

    Args:
        boundaries: Of the whole recording.
        steps: Its steps.
        num_envs: Sub-environments.
        autoreset_mode: Of the vector; None where resets are all there is.
    """
    masks = dict(zip(boundaries.masked.tolist(), boundaries.masks, strict=True))
    events: list[list[tuple[int, int, int]]] = [[] for _ in range(num_envs)]
    for number, at in enumerate(boundaries.resets.tolist()):
        mask = masks.get(number)
        for env in range(num_envs) if mask is None else np.flatnonzero(mask).tolist():
            events[env].append((at, 0, number))
    for step, env, flags in boundaries.ends.tolist():
        events[env].append((step, 1, flags))
    extents: list[Extent] = []
    # Between an end and the first step of what follows it: a step that only resets, or nothing.
    gap = {NEXT_STEP: 2, SAME_STEP: 1}.get(autoreset_mode or "")
    for env, happened in enumerate(events):
        begin: tuple[int, int | None] | None = None
        for step, is_end, value in sorted(happened):
            if begin is not None and (length := step + is_end - begin[0]) > 0:
                extents.append(Extent(begin[0], env, length, begin[1], value if is_end else 0))
            elif is_end:
                continue  # somebody went on after an end
            if not is_end:
                begin = step, value
                continue
            begin = None if gap is None else (step + gap, None)
        if begin is not None and steps > begin[0]:
            extents.append(Extent(begin[0], env, steps - begin[0], begin[1], 0))
    return sorted(extents)


class Episode:
    """An episode of a recording; it reads what it is asked for.

    Attributes:
        number: Its number in the file.
        sub_env: The sub-environment that played it; 0 where there was one environment.
        first_step: Number of its first step in the file.
        terminated: It ended by itself.
        truncated: It was cut off by the environment, such as at a time limit.
    """

    def __init__(self, file: RolloutFile, number: int, extent: Extent) -> None:
        self.number = number
        self.sub_env = extent.sub_env
        self.first_step = extent.first_step
        self.terminated = bool(extent.flags & 1)
        self.truncated = bool(extent.flags & 2)
        self._file = file
        self._extent = extent
        self._final_apart = self.complete and file.autoreset_mode == SAME_STEP

    def __len__(self) -> int:
        return self._extent.length

    def __repr__(self) -> str:
        how = "terminated" if self.terminated else "truncated" if self.truncated else "cut off"
        return f"<episode {self.number}, {len(self)} steps, {how}>"

    @property
    def complete(self) -> bool:
        """It ended, and was not cut off by a reset or by the end of the file."""
        return self._extent.flags != 0

    @property
    def seed(self) -> int | None:
        """Seed of the reset that began it; None where it had none."""
        if self._extent.reset is None:
            return None
        seed = self._file.reset(self._extent.reset).seed
        if isinstance(seed, Sequence | np.ndarray):
            seed = seed[self.sub_env]
        elif seed is not None and self._file.num_envs:
            seed = int(seed) + self.sub_env
        return None if seed is None else int(seed)

    @property
    def options(self) -> Any:
        """Options of the reset that began it."""
        if self._extent.reset is None:
            return None
        return self._file.reset(self._extent.reset).options

    @property
    def observations(self) -> Any:
        """All observations, the first one included: ``len(self) + 1`` of them."""
        space = self._file.observation_space
        trees = [(_lifted(self._first_observation(), space), 1)]
        inner = len(self) - self._final_apart
        trees += self._gather("observation", space, inner)
        if self._final_apart:
            final = info_of(self._file.step(self._last).info, self.sub_env)["final_obs"]
            trees.append((_lifted(final, space), 1))
        return _joined(trees)

    @property
    def actions(self) -> Any:
        """All actions."""
        return _joined(self._gather("action", self._file.action_space, len(self)))

    @property
    def rewards(self) -> np.ndarray[Any, Any]:
        """All rewards. Shape (steps,), float64."""
        anything = spaces.Box(-np.inf, np.inf, (), np.float64)
        parts = self._gather("reward", anything, len(self))
        return np.concatenate([np.asarray(part, np.float64) for part, _ in parts])

    @property
    def infos(self) -> list[dict[str, Any]]:
        """The info of each step."""
        found = [self._single(info) for info in self._each("info")]
        if self._final_apart:
            found[-1] = found[-1].get("final_info", {})
        return found

    @property
    def reset_info(self) -> dict[str, Any]:
        """The info of the reset that began it."""
        if self._extent.reset is not None:
            return self._single(self._file.reset(self._extent.reset).info)
        info = self._single(self._file.step(self.first_step - 1).info)
        return {key: value for key, value in info.items() if key not in ("final_obs", "final_info")}

    @property
    def frames(self) -> list[Any]:
        """What `render` returned after the reset and after each step; empty without `frames`."""
        if not self._file.has_frames:
            return []
        if self._extent.reset is not None:
            first = self._file.reset(self._extent.reset).frame
        else:
            first = self._file.step(self.first_step - 1).frame
        found = [first, *self._each("frame")]
        return [frame[self.sub_env] for frame in found] if self._file.num_envs else found

    @property
    def _last(self) -> int:
        return self.first_step + len(self) - 1

    def _first_observation(self) -> Any:
        if self._extent.reset is not None:
            batch = self._file.reset(self._extent.reset).observation
        else:
            batch = self._file.step(self.first_step - 1).observation
        if not self._file.num_envs:
            return batch
        return batches_of(self._space).sample(batch, self.sub_env)

    @property
    def _space(self) -> Any:
        return self._file.observation_space

    def _single(self, info: dict[str, Any]) -> dict[str, Any]:
        return info_of(info, self.sub_env) if self._file.num_envs else info

    def _each(self, name: str) -> Iterator[Any]:
        for column, rows in self._file.columns(name, self.first_step, self._last + 1):
            yield from map(column.row, rows)

    def _gather(self, name: str, space: Any, count: int) -> list[Stack]:
        """Return what each chunk has."""
        sub_env = self.sub_env if self._file.num_envs else None
        begin, end = self.first_step, self.first_step + count
        return [
            (_rows(column, space, rows, sub_env), len(rows))
            for column, rows in self._file.columns(name, begin, end)
        ]


# -- stacking -----------------------------------------------------------------------------------


def _rows(column: Column, space: Any, rows: range, sub_env: int | None) -> Any:
    if isinstance(space, _ARRAYS):
        array = column.array()
        if array is not None:
            chosen = array[rows.start : rows.stop]
            return (chosen if sub_env is None else chosen[:, sub_env]).copy()
    parts = column.parts()
    if _has_parts(parts, space):
        if isinstance(space, spaces.Dict):
            return {key: _rows(part, space[key], rows, sub_env) for key, part in parts.items()}
        return tuple(
            _rows(part, inner, rows, sub_env)
            for part, inner in zip(parts, space.spaces, strict=True)
        )
    found = [column.row(row) for row in rows]
    if sub_env is not None:
        batches = batches_of(space)
        found = [batches.sample(batch, sub_env) for batch in found]
    # They may differ in what makes no difference to the space, such as the order of keys.
    return _joined([(_lifted(sample, space), 1) for sample in found])


def _has_parts(parts: Any, space: Any) -> bool:
    """Tell whether something has the parts of samples of a space."""
    if isinstance(space, spaces.Dict):
        return isinstance(parts, dict) and parts.keys() == space.spaces.keys()
    if isinstance(space, spaces.Tuple):
        return isinstance(parts, (tuple, list)) and len(parts) == len(space.spaces)
    return False


def _lifted(sample: Any, space: Any) -> Any:
    """Return a sample as the only one of a stack."""
    if isinstance(space, _ARRAYS) and isinstance(sample, (np.ndarray, np.generic, int, float)):
        return np.asarray(sample)[None]
    if _has_parts(sample, space):
        if isinstance(space, spaces.Dict):
            return {key: _lifted(inner, space[key]) for key, inner in sample.items()}
        return tuple(_lifted(inner, part) for inner, part in zip(sample, space.spaces, strict=True))
    return [sample]


def _joined(stacks: list[Stack]) -> Any:
    """Return stacks one behind the other; a list of samples where they are not of one form."""
    trees = [tree for tree, _ in stacks]
    first = trees[0]
    if all(isinstance(tree, np.ndarray) and tree.shape[1:] == first.shape[1:] for tree in trees):
        return np.concatenate(trees)
    if all(isinstance(tree, dict) and tree.keys() == first.keys() for tree in trees):
        return {key: _joined([(tree[key], count) for tree, count in stacks]) for key in first}
    if all(isinstance(tree, tuple) and len(tree) == len(first) for tree in trees):
        return tuple(
            _joined([(tree[at], count) for tree, count in stacks]) for at in range(len(first))
        )
    return [sample for tree, count in stacks for sample in samples_of(tree, count)]


def samples_of(stacked: Any, count: int) -> list[Any]:
    """Return the samples of what an `Episode` has stacked, one by one."""
    if isinstance(stacked, dict):
        columns = {key: samples_of(inner, count) for key, inner in stacked.items()}
        return [{key: column[at] for key, column in columns.items()} for at in range(count)]
    if isinstance(stacked, tuple):
        parts = [samples_of(inner, count) for inner in stacked]
        return [tuple(part[at] for part in parts) for at in range(count)]
    return list(stacked)


def chunks_of(first: Sequence[int], begin: int, end: int) -> Iterable[int]:
    """Return the numbers of the chunks of steps that hold some of these.

    Args:
        first: First steps of the chunks.
        begin: First of the steps.
        end: The one after the last.
    """
    at = bisect.bisect_right(first, begin) - 1
    while 0 <= at < len(first) and first[at] < end:
        yield at
        at += 1
