"""`ChunkAppender`: chunks at the end of a file, which stays readable whatever happens."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np

from openenv_gym.errors import RecordingWriteError
from openenv_gym.protocol.codec import encode_packet, packet_size
from openenv_gym.recording.format import (
    INDEX,
    METADATA,
    STEPS,
    TRAILER,
    TRAILER_MAGIC,
    Parts,
    chunk_bytes,
    compress,
    start_bytes,
)


__all__ = ["ChunkAppender", "pack_masks", "write_error"]


class ChunkAppender:
    """A file that is written from its start to its index.

    Args:
        path: The file.
        metadata: What its first chunk says.
        overwrite: Replace a file that is there.
        compression: Number of the blocks' compression.

    Raises:
        RecordingWriteError: It exists, or cannot be made or written.
    """

    def __init__(
        self, path: Path, metadata: dict[str, Any], *, overwrite: bool, compression: int
    ) -> None:
        first = chunk_bytes(METADATA, 0, metadata, [])
        self._chunks = 1
        self._path = path
        self._compression = compression
        self._end = 0
        self._rows: list[tuple[int, int, int]] = []  # offset, steps, resets
        self._resets: list[np.ndarray[Any, Any]] = []
        self._masks: list[tuple[int, np.ndarray[Any, Any]]] = []
        self._reset_count = 0
        self._ends: list[np.ndarray[Any, Any]] = []
        try:
            # Unbuffered: a forked child would write its copy of the buffer when it ends.
            self._file = path.open("wb" if overwrite else "xb", buffering=0)
        except FileExistsError as error:
            raise RecordingWriteError(
                f"The file {path} exists already.",
                field="path",
                hint="Choose another one, or overwrite it (overwrite=True, --overwrite).",
            ) from error
        except OSError as error:
            raise write_error(path, error) from error
        try:
            self._append([start_bytes(), *first])
        except BaseException:
            self.close()
            raise

    def _append(self, parts: Parts) -> None:
        """Append parts; where that fails, the file ends where it ended before."""
        try:
            for part in parts:
                rest = memoryview(part)
                while rest:
                    rest = rest[self._file.write(rest) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(self._end)
            raise write_error(self._path, error) from error
        self._end += packet_size(parts)

    def add_steps(self, summary: dict[str, Any], blocks: list[Parts]) -> None:
        """Append a chunk of steps.

        Args:
            summary: What is in it, but for the sizes of its blocks.
            blocks: These, each as a packet.

        Raises:
            RecordingWriteError: It cannot be written.
        """
        stored: Parts = []
        infos = []
        for block in blocks:
            parts, info = compress(block, self._compression)
            stored += parts
            infos.append(list(info))
        offset = self._end
        self._append(chunk_bytes(STEPS, self._chunks, {**summary, "blocks": infos}, stored))
        self._chunks += 1
        self._rows.append((offset, summary["steps"], len(summary["resets"])))
        self._masks += [
            (self._reset_count + int(number), mask)
            for number, mask in zip(summary["masked"], summary["masks"], strict=True)
        ]
        self._reset_count += len(summary["resets"])
        self._resets.append(summary["resets"])
        self._ends.append(summary["ends"])

    def finish(self, steps: int) -> None:
        """Append the index, by which the file is complete.

        Raises:
            RecordingWriteError: It cannot be written.
        """
        rows = np.array(self._rows, np.uint64).reshape(-1, 3)
        index = {
            "offsets": rows[:, 0],
            "steps": rows[:, 1],
            "resets_in": rows[:, 2],
            "resets": np.concatenate([np.zeros(0, np.int64), *self._resets]),
            **pack_masks(self._masks),
            "ends": np.concatenate([np.zeros((0, 3), np.int64), *self._ends]),
        }
        parts, info = compress(encode_packet([index]), self._compression)
        offset = self._end
        chunk = chunk_bytes(INDEX, self._chunks, {"steps": steps, "blocks": [list(info)]}, parts)
        self._append([*chunk, TRAILER.pack(offset, TRAILER_MAGIC)])

    def close(self) -> None:
        """Close the file. Safe to repeat."""
        with contextlib.suppress(OSError):
            self._file.close()


def write_error(path: Path, error: OSError) -> RecordingWriteError:
    """Return the error about a file that the operating system does not write."""
    if isinstance(error, RecordingWriteError):
        return error
    made = RecordingWriteError(
        f"The recording {path} cannot be written: {error.strerror or error}.",
        field="path",
        hint="What is in the file until there can be read.",
    )
    made.errno = error.errno
    return made


def pack_masks(masks: list[tuple[int, np.ndarray[Any, Any]]]) -> dict[str, Any]:
    """Return which of the resets chose sub-environments, and which ones. Shapes (k,), (k, n)."""
    width = -1 if masks else 0
    return {
        "masked": np.array([number for number, _ in masks], np.int64),
        "masks": np.array([mask for _, mask in masks], np.bool_).reshape(len(masks), width),
    }
