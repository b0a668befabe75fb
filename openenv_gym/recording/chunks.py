"""Chunks of a file: where they are, and what is in them. Nothing in a file is trusted."""

from __future__ import annotations

import os
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np

from openenv_gym.errors import DecodeError, RecordingDamagedError
from openenv_gym.recording.columns import Column, load_error, read_column
from openenv_gym.recording.episodes import Boundaries
from openenv_gym.recording.format import (
    CHUNK_HEAD,
    INDEX,
    START,
    STEPS,
    TRAILER,
    TRAILER_MAGIC,
    Head,
    block_info,
    decompress,
    parse_head,
    parse_start,
    parse_summary,
    unpack,
)


__all__ = ["Chunk", "ChunkFile", "Layout", "Place"]


class Place(NamedTuple):
    """Where a chunk of steps is in the file, and in the recording."""

    offset: int
    first_step: int
    steps: int
    first_reset: int
    resets: int


class Layout(NamedTuple):
    """The chunks of steps.

    Attributes:
        places: Where they are.
        boundaries: Of all of them, where an index says them.
        closed: There is an index: the file was completed.
        damage: Why there are not more of them; None where the file ends.
    """

    places: list[Place]
    boundaries: Boundaries | None
    closed: bool
    damage: RecordingDamagedError | None


class Chunk:
    """A chunk of steps; its columns are read when they are asked for.

    Attributes:
        boundaries: Resets and ends in it.
        steps: How many steps it has.
        first_step: The first of them.
    """

    def __init__(self, source: ChunkFile, offset: int, number: int, num_envs: int) -> None:
        head, summary = source.chunk_at(offset, number)
        self.head = head
        self._source = source
        self._number = number
        self._body = offset + CHUNK_HEAD.size + head.summary_bytes
        self._columns: dict[tuple[str, str], Column] = {}
        try:
            if head.kind != STEPS:
                raise RecordingDamagedError(f"It is of the kind {head.kind}.")
            self.first_step = _count(summary, "step")
            self.steps = _count(summary, "steps")
            self.boundaries = read_boundaries(summary, num_envs)
            _check_range(self.boundaries, self.first_step, self.steps)
            tables, infos = summary.get("tables"), summary.get("blocks")
            if not isinstance(tables, dict) or not isinstance(infos, list):
                raise RecordingDamagedError("It does not say what is in it.")
            self._tables: dict[Any, Any] = tables
            self._blocks = [block_info(info, source.max_block_bytes) for info in infos]
            if sum(info.stored_bytes for info in self._blocks) != head.body_bytes:
                raise RecordingDamagedError("Its blocks are not as large as they are together.")
        except RecordingDamagedError as error:
            raise damaged(error, number) from error

    def has(self, table: str, name: str) -> bool:
        """Tell whether there is a column."""
        columns = self._tables.get(table)
        return isinstance(columns, dict) and name in columns

    def column(self, table: str, name: str) -> Column:
        """Return a column.

        Args:
            table: ``steps`` or ``resets``.
            name: Its name there.

        Raises:
            RecordingDamagedError: It cannot be read.
        """
        key = table, name
        if key not in self._columns:
            rows = self.steps if table == "steps" else len(self.boundaries.resets)
            try:
                if not self.has(table, name):
                    raise RecordingDamagedError("It is not there.")
                self._columns[key] = read_column(self._tables[table][name], rows, self._load)
            except DecodeError as error:
                raise damaged(load_error(error), self._number, f"{table}.{name}") from error
            except RecordingDamagedError as error:
                raise damaged(error, self._number, f"{table}.{name}") from error
        return self._columns[key]

    def row(self, table: str, names: tuple[str, ...], row: int) -> list[Any]:
        """Return values of a row; None for columns that the table need not have and has not."""
        return [
            self.column(table, name).row(row) if name != "frame" or self.has(table, name) else None
            for name in names
        ]

    def _load(self, block: Any) -> Any:
        if type(block) is not int or not 0 <= block < len(self._blocks):
            raise RecordingDamagedError(f"There is no block {block!r:.20}.")
        start = self._body + sum(info.stored_bytes for info in self._blocks[:block])
        info = self._blocks[block]
        return unpack(decompress(self._source.read(start, info.stored_bytes), info))


class ChunkFile:
    """A file with chunks.

    Args:
        file: It, opened.
        max_block_bytes: Most bytes that a block may unpack to.
    """

    def __init__(self, file: BinaryIO, max_block_bytes: int) -> None:
        self.max_block_bytes = max_block_bytes
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        parse_start(self.read(0, START.size))

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of the file as it was when it was opened, fewer where it ends."""
        # Without the file's own position: forked children share that, and threads.
        end = min(offset + size, self._size)
        parts: list[bytes] = []
        while offset < end:
            part = os.pread(self._file.fileno(), end - offset, offset)
            if not part:  # it was made shorter since
                break
            parts.append(part)
            offset += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def chunk_at(self, offset: int, number: int) -> tuple[Head, dict[str, Any]]:
        """Return head and summary of a chunk.

        Raises:
            RecordingDamagedError: There is none of that number; ``data["cut"]`` where the file ends
                within it.
        """
        start = offset + CHUNK_HEAD.size
        cut = start > self._size
        try:
            head = parse_head(self.read(offset, CHUNK_HEAD.size))
            cut = start + head.summary_bytes + head.body_bytes > self._size
            if cut:
                raise RecordingDamagedError("The file ends within it.")
            summary = parse_summary(head, self.read(start, head.summary_bytes))
            if head.number != number:
                raise RecordingDamagedError(f"It has the number {head.number}.")
        except RecordingDamagedError as error:
            raise damaged(error, number, cut=cut) from error
        return head, summary

    def end_of(self, offset: int, head: Head) -> int:
        """Return the offset behind a chunk."""
        return offset + CHUNK_HEAD.size + head.summary_bytes + head.body_bytes

    def layout(self, offset: int, num_envs: int) -> Layout:
        """Return the chunks of steps, by the index or by going from head to head.

        Args:
            offset: Of the first of them.
            num_envs: Columns of the masks.
        """
        try:
            return self._read_index(num_envs)
        except (RecordingDamagedError, DecodeError):
            return self._scan(offset, num_envs)

    def _scan(self, offset: int, num_envs: int) -> Layout:
        places: list[Place] = []
        first_step = first_reset = 0
        damage = None
        try:
            while offset < self._size:
                number = len(places) + 1
                head, _ = self.chunk_at(offset, number)
                if head.kind == INDEX:
                    break
                chunk = Chunk(self, offset, number, num_envs)
                if chunk.first_step != first_step:
                    error = RecordingDamagedError(f"It begins with step {chunk.first_step}.")
                    raise damaged(error, number)
                resets = len(chunk.boundaries.resets)
                places.append(Place(offset, first_step, chunk.steps, first_reset, resets))
                first_step, first_reset = first_step + chunk.steps, first_reset + resets
                offset = self.end_of(offset, head)
        except RecordingDamagedError as error:
            damage = error
        return Layout(places, None, False, damage)

    def _read_index(self, num_envs: int) -> Layout:
        trailer = self.read(max(self._size - TRAILER.size, 0), TRAILER.size)
        if len(trailer) != TRAILER.size or not trailer.endswith(TRAILER_MAGIC):
            raise RecordingDamagedError("There is no index.")
        offset, _ = TRAILER.unpack(trailer)
        if not START.size < offset < self._size:
            raise RecordingDamagedError("The index is not in the file.")
        number = parse_head(self.read(offset, CHUNK_HEAD.size)).number
        head, summary = self.chunk_at(offset, number)
        infos = summary.get("blocks")
        if head.kind != INDEX or not isinstance(infos, list) or len(infos) != 1:
            raise RecordingDamagedError("The index is of another form.")
        info = block_info(infos[0], self.max_block_bytes)
        start = offset + CHUNK_HEAD.size + head.summary_bytes
        index = unpack(decompress(self.read(start, info.stored_bytes), info))
        if type(index) is not dict:
            raise RecordingDamagedError("The index is no map.")
        boundaries = read_boundaries(index, num_envs)
        rows = [index.get(key) for key in ("offsets", "steps", "resets_in")]
        if any(type(row) is not np.ndarray or row.dtype != np.uint64 for row in rows):
            raise RecordingDamagedError("The index has no offsets.")
        if any(row.shape != (number - 1,) for row in rows if row is not None):
            raise RecordingDamagedError("The index does not fit the file.")
        places: list[Place] = []
        first_step = first_reset = 0
        for at, steps, resets in zip(*(row.tolist() for row in rows), strict=True):  # type: ignore[union-attr]
            places.append(Place(at, first_step, steps, first_reset, resets))
            first_step, first_reset = first_step + steps, first_reset + resets
        if first_reset != len(boundaries.resets) or first_step >= 2**62:
            raise RecordingDamagedError("The index does not fit the file.")
        _check_range(boundaries, 0, first_step)
        return Layout(places, boundaries, True, None)


def read_boundaries(data: dict[str, Any], num_envs: int) -> Boundaries:
    """Return the boundaries that a summary or an index tells.

    Raises:
        RecordingDamagedError: They are none.
    """
    arrays = [data.get(key) for key in Boundaries._fields]
    for array, kind, dimensions in zip(arrays, "iibi", (1, 1, 2, 2), strict=True):
        if type(array) is not np.ndarray or array.dtype.kind != kind or array.ndim != dimensions:
            raise RecordingDamagedError("It does not say where episodes begin and end.")
    found = Boundaries(*cast("list[np.ndarray[Any, Any]]", arrays))
    found = found._replace(
        **{key: getattr(found, key).astype(np.int64) for key in ("resets", "masked", "ends")}
    )
    if (
        found.ends.shape[1] != 3
        or len(found.masked) != len(found.masks)
        or (len(found.masks) and found.masks.shape[1] != num_envs)
        or _outside(found.ends[:, 1], num_envs)
        or _outside(found.masked, len(found.resets))
    ):
        raise RecordingDamagedError("Where episodes begin and end does not fit the recording.")
    return found._replace(masks=found.masks.reshape(len(found.masks), num_envs))


def _check_range(boundaries: Boundaries, first_step: int, steps: int) -> None:
    """Refuse resets and ends of steps that are not there."""
    at_end = _outside(boundaries.resets - first_step, steps + 1)
    if at_end or _outside(boundaries.ends[:, 0] - first_step, steps):
        raise RecordingDamagedError("Where episodes begin and end is outside of it.")


def _outside(array: np.ndarray[Any, Any], limit: int) -> bool:
    return bool(len(array) and (array.min() < 0 or array.max() >= limit))


def _count(data: dict[str, Any], key: str) -> int:
    value = data.get(key)
    if type(value) is not int or not 0 <= value < 2**62:
        raise RecordingDamagedError(f"Its {key} is {value!r:.40}.")
    return value


def damaged(
    error: RecordingDamagedError, number: int, what: str | None = None, *, cut: bool = False
) -> RecordingDamagedError:
    """Return an error that names the chunk."""
    place = f"chunk {number}" if what is None else f"chunk {number}, column {what}"
    return RecordingDamagedError(
        f"The recording is damaged in {place}: {error.message}",
        field=what,
        hint=error.hint or "What is before it can be read.",
        data={"chunk": number, "cut": cut},
    )
