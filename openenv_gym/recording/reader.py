"""`RolloutFile`: a recording, read as far as somebody asks."""

from __future__ import annotations

import bisect
import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, overload

import gymnasium
import numpy as np

from openenv_gym.errors import RecordingDamagedError, RecordingError, SpaceError
from openenv_gym.recording.chunks import Chunk, ChunkFile, Place, damaged
from openenv_gym.recording.columns import Column
from openenv_gym.recording.episodes import Boundaries, Episode, Extent, chunks_of, find_extents
from openenv_gym.recording.format import METADATA, START
from openenv_gym.spaces import space_from_data


__all__ = ["Episodes", "Reset", "RolloutFile", "Step", "open_rollout"]

_CACHED = 4  # chunks that stay unpacked
_MAX_ENVS = 1 << 20
MAX_BLOCK_BYTES = 1 << 30


class Reset(NamedTuple):
    """A reset: ahead of which step, with what, and what came back."""

    at: int
    seed: Any
    options: Any
    observation: Any
    info: Any
    frame: Any = None


class Step(NamedTuple):
    """A step: its number, the action, and what came back."""

    number: int
    action: Any
    observation: Any
    reward: Any
    terminated: Any
    truncated: Any
    info: Any
    frame: Any = None


class RolloutFile:
    """A recording. Nothing in it is executed, and only what is asked for is read.

    Args:
        path: The file.
        max_block_bytes: Most bytes that a block may unpack to.

    Attributes:
        path: The file.
        metadata: What is known of the environment (docs/recording.md).
        num_envs: Sub-environments of a vector; 0 for one environment.
        autoreset_mode: Of a vector: ``"NextStep"``, ``"SameStep"`` or ``"Disabled"``; else None.
        steps: Steps; of a vector, one of all counts as one.
        closed: It was completed; else whoever wrote it was killed, or still writes.
        damage: Of a file that was not completed: why what follows the last chunk that was found
            cannot be read; None where nothing does. What is in a chunk is checked when it is read.

    Raises:
        RecordingError: The file cannot be opened.
        RecordingDamagedError: It is no recording, or its metadata cannot be read.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, max_block_bytes: int = MAX_BLOCK_BYTES
    ) -> None:
        self.path = Path(path)
        try:
            self._file: BinaryIO = self.path.open("rb")
        except OSError as error:
            raise RecordingError(
                f"The recording {self.path} cannot be opened: {error.strerror or error}.",
                field="path",
            ) from error
        try:
            self._open(max_block_bytes)
        except BaseException:
            self._file.close()
            raise

    def _open(self, max_block_bytes: int) -> None:
        self._chunks = ChunkFile(self._file, max_block_bytes)
        head, self.metadata = self._chunks.chunk_at(START.size, 0)
        if head.kind != METADATA:
            raise _wrong("The first chunk is not the metadata.")
        for key in ("environment", "spaces", "vector", "versions", "user"):
            if not isinstance(self.metadata.get(key, {}), dict | None):
                raise _wrong(f"Its {key} is {self.metadata[key]!r:.60}, expected a map.")
        vector = self.metadata.get("vector")
        self.num_envs = 0
        self.autoreset_mode: str | None = None
        if vector is not None:
            if type(vector.get("num_envs")) is not int:
                raise _wrong(f"The vector is described by {vector!r:.60}.")
            self.num_envs, self.autoreset_mode = vector["num_envs"], vector.get("autoreset_mode")
            if not 1 <= self.num_envs <= _MAX_ENVS:
                raise _wrong(f"The vector has {self.num_envs} environments.")
        self._width = max(self.num_envs, 1)
        layout = self._chunks.layout(self._chunks.end_of(START.size, head), self._width)
        self._places = layout.places
        # Threads may read a file together: this cache is safe for them, and no lock of it stays
        # taken in a child that is forked meanwhile.
        self._chunk = functools.lru_cache(_CACHED)(
            functools.partial(_read_chunk, self._chunks, self._places, self._width)
        )
        self._boundaries = layout.boundaries
        self.closed, self.damage = layout.closed, layout.damage
        self._first_steps = [place.first_step for place in self._places]
        self._first_resets = [place.first_reset for place in self._places]
        self.steps = sum(place.steps for place in self._places)
        self.resets = sum(place.resets for place in self._places)

    # -- what there is ------------------------------------------------------------------------

    @functools.cached_property
    def episodes(self) -> Episodes:
        """The episodes, in the order in which they began; those without a step are left out."""
        return Episodes(self, self._extents())

    def __iter__(self) -> Iterator[Episode]:
        return iter(self.episodes)

    def __len__(self) -> int:
        return len(self.episodes)

    @functools.cached_property
    def observation_space(self) -> gymnasium.Space[Any] | None:
        """Space of one environment's observations; None where its class was somebody's own."""
        return self._space("observation")

    @functools.cached_property
    def action_space(self) -> gymnasium.Space[Any] | None:
        """Space of one environment's actions; None where its class was somebody's own."""
        return self._space("action")

    @property
    def has_frames(self) -> bool:
        """Frames were kept."""
        tables = ("steps", "resets")
        return bool(self._places) and any(self._chunk(0).has(name, "frame") for name in tables)

    def rows(self) -> Iterator[Reset | Step]:
        """Yield all resets and steps in the order in which they happened; batches as batches.

        Raises:
            RecordingDamagedError: A chunk cannot be read; all before it were yielded.
        """
        for at, place in enumerate(self._places):
            chunk = self._chunk(at)
            reset, resets = 0, chunk.boundaries.resets.tolist()
            for row in range(place.steps + 1):
                while reset < len(resets) and resets[reset] == place.first_step + row:
                    yield _reset(chunk, reset)
                    reset += 1
                if row < place.steps:
                    yield _step(chunk, row)

    def step(self, number: int) -> Step:
        """Return a step.

        Raises:
            IndexError: There is no such step.
            RecordingDamagedError: Its chunk cannot be read.
        """
        for at in chunks_of(self._first_steps, number, number + 1):
            if number < self._places[at].first_step + self._places[at].steps:
                return _step(self._chunk(at), number - self._places[at].first_step)
        raise IndexError(f"There is no step {number} in {self.steps} steps.")

    def reset(self, number: int) -> Reset:
        """Return a reset, by its number among the resets.

        Raises:
            IndexError: There is no such reset.
            RecordingDamagedError: Its chunk cannot be read.
        """
        if 0 <= number < self.resets:
            at = bisect.bisect_right(self._first_resets, number) - 1
            return _reset(self._chunk(at), number - self._first_resets[at])
        raise IndexError(f"There is no reset {number} in {self.resets} resets.")

    def columns(self, name: str, begin: int, end: int) -> Iterator[tuple[Column, range]]:
        """Yield a column of the steps from `begin` until before `end`, chunk by chunk.

        Args:
            name: ``action``, ``observation``, ``reward``, ``terminated``, ``truncated``, ``info``.
            begin: First step.
            end: The one after the last.

        Yields:
            The column of a chunk, and which of its rows are meant.

        Raises:
            RecordingDamagedError: A chunk cannot be read.
        """
        for at in chunks_of(self._first_steps, begin, end):
            place = self._places[at]
            rows = range(max(begin - place.first_step, 0), min(end - place.first_step, place.steps))
            if rows:
                yield self._chunk(at).column("steps", name), rows

    def close(self) -> None:
        """Close the file; what was read stays."""
        self._chunk.cache_clear()
        self._file.close()

    def __enter__(self) -> RolloutFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<recording {self.path}, {self.steps} steps>"

    # -- chunks -------------------------------------------------------------------------------

    def _extents(self) -> list[Extent]:
        boundaries = self._boundaries
        if boundaries is None:
            width = self._width
            chunks = [self._chunk(at).boundaries for at in range(len(self._places))]
            firsts = self._first_resets
            masked = [each.masked + first for each, first in zip(chunks, firsts, strict=True)]
            boundaries = Boundaries(
                np.concatenate([np.zeros(0, np.int64), *(each.resets for each in chunks)]),
                np.concatenate([np.zeros(0, np.int64), *masked]),
                np.concatenate([np.zeros((0, width), np.bool_), *(each.masks for each in chunks)]),
                np.concatenate([np.zeros((0, 3), np.int64), *(each.ends for each in chunks)]),
            )
        return find_extents(boundaries, self.steps, self._width, self.autoreset_mode)

    def _space(self, name: str) -> gymnasium.Space[Any] | None:
        data = (self.metadata.get("spaces") or {}).get(name)
        if not isinstance(data, dict) or data.get("type") is None:
            return None
        try:
            return space_from_data(data, f"{name} space")
        except SpaceError as error:
            raise _wrong(error.message) from error


class Episodes(Sequence[Episode]):
    """The episodes of a file."""

    def __init__(self, file: RolloutFile, extents: list[Extent]) -> None:
        self._file = file
        self._extents = extents

    def __len__(self) -> int:
        return len(self._extents)

    @overload
    def __getitem__(self, index: int) -> Episode: ...

    @overload
    def __getitem__(self, index: slice) -> list[Episode]: ...

    def __getitem__(self, index: int | slice) -> Episode | list[Episode]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"There is no episode {index} in {len(self)} episodes.")
        number = index % len(self)
        return Episode(self._file, number, self._extents[number])

    def at(self, step: int, sub_env: int = 0) -> Episode | None:
        """Return the episode that has a step; None where the step only resets."""
        for number in range(bisect.bisect_right(self._extents, (step, sub_env + 1)) - 1, -1, -1):
            extent = self._extents[number]
            if extent.sub_env == sub_env:
                return self[number] if step < extent.first_step + extent.length else None
        return None


def open_rollout(
    path: str | os.PathLike[str], *, max_block_bytes: int = MAX_BLOCK_BYTES
) -> RolloutFile:
    """Open a recording; see `RolloutFile`.

    Raises:
        RecordingError: The file cannot be opened.
        RecordingDamagedError: It is no recording, or its metadata cannot be read.
    """
    return RolloutFile(path, max_block_bytes=max_block_bytes)


def _read_chunk(source: ChunkFile, places: list[Place], width: int, at: int) -> Chunk:
    place = places[at]
    chunk = Chunk(source, place.offset, at + 1, width)
    found = chunk.first_step, chunk.steps, len(chunk.boundaries.resets)
    if found != (place.first_step, place.steps, place.resets):
        raise damaged(RecordingDamagedError("The index says something else of it."), at + 1)
    return chunk


def _reset(chunk: Chunk, row: int) -> Reset:
    return Reset(int(chunk.boundaries.resets[row]), *chunk.row("resets", Reset._fields[1:], row))


def _step(chunk: Chunk, row: int) -> Step:
    return Step(chunk.first_step + row, *chunk.row("steps", Step._fields[1:], row))


def _wrong(message: str) -> RecordingDamagedError:
    return damaged(RecordingDamagedError(message, hint="Nothing of it can be read."), 0)
