"""`RolloutWriter`: resets and steps to chunks of a file, by a thread of its own."""

from __future__ import annotations

import os
import queue
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from openenv_gym.errors import RecordingError, RecordingWriteError
from openenv_gym.recording.appending import ChunkAppender, pack_masks, write_error
from openenv_gym.recording.columns import pack_column
from openenv_gym.recording.format import Parts, best_compression
from openenv_gym.recording.snapshots import Snapshots, Spares


__all__ = ["Limits", "RolloutWriter"]

STEP_COLUMNS = ("action", "observation", "reward", "terminated", "truncated", "info")
RESET_COLUMNS = ("seed", "options", "observation", "info")
FRAME = "frame"

_WAIT_S = 0.5  # between looks whether the thread still lives
_END_S = 30.0  # so long it may take to end once it has nothing to write


class Limits:
    """What a crash may cost: chunks are half as large, one is filled and one is being written.

    Args:
        steps: Steps; of a vector, those of all together count as one.
        size_bytes: Bytes of their arrays.
        seconds: Time, as far as steps come.
    """

    def __init__(self, steps: int, size_bytes: int, seconds: float) -> None:
        self.steps = max(steps // 2, 1)
        self.size_bytes = max(size_bytes // 2, 1)
        self.seconds = seconds / 2


class _Pending:
    """Rows that make the next chunk.

    Attributes:
        first_step: The first of its steps.
        begin_s: When it was begun.
        copies: What makes the copies in its rows.
        steps: Rows of steps.
        resets: Of each reset ahead of which step it was, which sub-environments it chose, its row.
        begun: Somebody writes it, or has.
        written: So it is, or cannot be.
        waiting: Taken until then.
    """

    def __init__(self, first_step: int, spares: Spares) -> None:
        self.first_step = first_step
        self.begin_s = time.monotonic()
        self.copies = Snapshots(spares)
        self.steps: list[tuple[Any, ...]] = []
        self.resets: list[tuple[int, Any, tuple[Any, ...]]] = []
        self.begun = self.written = False
        self.waiting = threading.Lock()
        self.waiting.acquire()

    @property
    def next_step(self) -> int:
        """The step after its last one."""
        return self.first_step + len(self.steps)

    def forget(self) -> None:
        """Leave the memory of the rows to others."""
        self.copies, self.steps, self.resets = Snapshots(), [], []


class RolloutWriter:
    """Writes a recording; `RecordRollout` calls it for each reset and step.

    Args:
        path: The file.
        metadata: What is known of the environment, plain data.
        num_envs: Sub-environments of a vector; 0 for one environment.
        overwrite: Replace a file that is there.
        limits: What a crash may cost.
        compression: See `best_compression`.
        frames: Rows have a frame, too.

    Raises:
        RecordingWriteError: The file cannot be made.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        metadata: dict[str, Any],
        *,
        num_envs: int = 0,
        overwrite: bool = False,
        limits: Limits | None = None,
        compression: str | None = None,
        frames: bool = False,
    ) -> None:
        self.path = Path(path)
        self._num_envs = num_envs
        self._limits = limits or Limits(2048, 32 << 20, 2.0)
        self._step_columns = (*STEP_COLUMNS, FRAME) if frames else STEP_COLUMNS
        self._reset_columns = (*RESET_COLUMNS, FRAME) if frames else RESET_COLUMNS
        self._spares = Spares()
        self._pending = _Pending(0, self._spares)
        # Ctrl-C may come between any two of these becoming what they are to be next: see _deliver.
        self._leaving: _Pending | None = None
        self._handed: _Pending | None = None
        self._owner = os.getpid()
        self._closed = False
        self._told = False
        self._error: BaseException | None = None
        self._queue: queue.SimpleQueue[_Pending | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._file = ChunkAppender(
            self.path, metadata, overwrite=overwrite, compression=best_compression(compression)
        )

    # -- rows ---------------------------------------------------------------------------------

    def add_reset(
        self, seed: Any, options: Any, observation: Any, info: Any, frame: Any = None
    ) -> None:
        """Keep a reset, which was asked for.

        Raises:
            RecordingError: It cannot be kept, or an earlier row could not be written.
        """
        pending = self._ready()
        mask = options.get("reset_mask") if self._num_envs and isinstance(options, dict) else None
        chosen = None if mask is None else np.array(mask, np.bool_)
        take = pending.copies.take
        row = (take(seed), take(options), take(observation), take(info), take(frame))
        # All of it at once, or with Ctrl-C nothing.
        pending.resets.append((pending.next_step, chosen, row[: len(self._reset_columns)]))
        self._hand_over_if_full()

    def add_step(
        self,
        action: Any,
        observation: Any,
        reward: Any,
        terminated: Any,
        truncated: Any,
        info: Any,
        frame: Any = None,
    ) -> None:
        """Keep a step.

        Raises:
            RecordingError: It cannot be kept, or an earlier row could not be written.
        """
        pending = self._ready()
        take = pending.copies.take
        row = (
            take(action),
            take(observation),
            take(reward),
            take(terminated),
            take(truncated),
            take(info),
        )
        pending.steps.append(row if len(self._step_columns) == len(row) else (*row, take(frame)))
        self._hand_over_if_full()

    def flush(self) -> None:
        """Have everything so far in the file, as far as the operating system is concerned.

        Raises:
            RecordingError: It cannot be written.
        """
        self._ready()
        self._hand_over()
        self._wait()

    def close(self) -> None:
        """Write what is left, and the index. Safe to repeat; a forked child does nothing.

        Raises:
            RecordingError: It cannot be written.
        """
        if self._closed or os.getpid() != self._owner:
            return
        self._closed = True
        try:
            if self._error is None:
                self._hand_over()
                self._wait()
                self._file.finish(self._pending.next_step)
            elif not self._told:
                self._check()
        except OSError as error:
            raise write_error(self.path, error) from error
        finally:
            if self._thread is not None and self._thread.is_alive():
                self._queue.put(None)
                self._thread.join(_END_S)
            self._file.close()

    # -- the thread ---------------------------------------------------------------------------

    def _ready(self) -> _Pending:
        if self._closed:
            raise RecordingError(f"The recording {self.path} is closed.", field="path")
        if os.getpid() != self._owner:
            raise RecordingError(
                f"The recording {self.path} belongs to the process that began it, and this is a "
                "forked child.",
                hint="Wrap the environment in the child, with a file of its own.",
            )
        self._check()
        return self._pending

    def _check(self) -> None:
        if self._error is None:
            return
        self._told = True
        if isinstance(self._error, RecordingWriteError):
            raise self._error
        raise RecordingError(
            f"The recording {self.path} ends before what cannot be written: {self._error}",
            field=getattr(self._error, "field", None),
            hint=getattr(self._error, "hint", None),
        ) from self._error

    def _hand_over_if_full(self) -> None:
        pending, limits = self._pending, self._limits
        if (
            len(pending.steps) + len(pending.resets) >= limits.steps
            or pending.copies.size_bytes >= limits.size_bytes
            or time.monotonic() - pending.begin_s >= limits.seconds
        ):
            self._hand_over()

    def _hand_over(self) -> None:
        self._deliver()  # what an interrupted call has left
        pending = self._pending
        if pending.steps or pending.resets:
            self._leaving = pending
            self._pending = _Pending(pending.next_step, self._spares)
            self._deliver()

    def _deliver(self) -> None:
        """Have the rows that leave written, once, wherever an earlier call was interrupted."""
        leaving = self._leaving
        if leaving is None or leaving is self._pending:  # nothing, or rows still come to it
            return
        if self._has_thread():
            if self._handed is not leaving:
                self._wait()
                self._handed = leaving
            self._queue.put(leaving)  # a second time is none: it is begun by then
        else:
            self._handed = leaving
            self._attempt(leaving)
            if self._error is not None and not isinstance(self._error, Exception):
                raise self._error  # Ctrl-C, which is no error of the recording
            self._wait()
        self._leaving = None

    def _has_thread(self) -> bool:
        """Tell whether there is a thread that writes; start it where that is worth it."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="openenv-rollout", daemon=True)
        if self._thread.ident is not None:
            return True
        if self._closed:  # nobody would be faster, and none begins when the interpreter ends
            return False
        try:
            self._thread.start()
        except RuntimeError:  # there are as many as there may be
            return False
        return True

    def _wait(self) -> None:
        """Wait until what was handed over is written.

        Raises:
            RecordingError: It cannot be.
        """
        handed = self._handed
        while handed is not None and not handed.written:
            lives = self._thread is not None and self._thread.is_alive()
            if not handed.waiting.acquire(timeout=_WAIT_S) and not lives:
                raise RecordingError("The thread that writes the recording has ended.")
        self._check()

    def _run(self) -> None:
        while (pending := self._queue.get()) is not None:
            self._attempt(pending)
            del pending

    def _attempt(self, pending: _Pending) -> None:
        if pending.begun:
            return
        pending.begun = True
        try:
            self._write(pending)
        except BaseException as error:
            self._error = error  # the next call raises it
        pending.forget()
        pending.written = True
        pending.waiting.release()

    def _write(self, pending: _Pending) -> None:
        ends = _find_ends(pending.steps, pending.first_step)
        blocks: list[Parts] = []
        tables = {
            "steps": self._pack(pending.steps, self._step_columns, blocks),
            "resets": self._pack([row for *_, row in pending.resets], self._reset_columns, blocks),
        }
        masks = [
            (number, mask) for number, (_, mask, _) in enumerate(pending.resets) if mask is not None
        ]
        self._file.add_steps(
            {
                "step": pending.first_step,
                "steps": len(pending.steps),
                "resets": np.array([at for at, *_ in pending.resets], np.int64),
                **pack_masks(masks),
                "ends": ends,
                "tables": tables,
            },
            blocks,
        )
        self._spares.replace(pending.copies.large)

    def _pack(
        self, rows: list[tuple[Any, ...]], names: tuple[str, ...], blocks: list[Parts]
    ) -> dict[str, Any]:
        if not rows:
            return {}
        columns = zip(*rows, strict=True)
        return {
            name: pack_column(column, blocks, name, num_envs=self._num_envs)
            for name, column in zip(names, columns, strict=True)
        }


def _find_ends(steps: list[tuple[Any, ...]], first_step: int) -> np.ndarray[Any, Any]:
    """Return step, sub-environment and flags of each end of an episode. Shape (n, 3), int64."""
    if not steps:
        return np.zeros((0, 3), np.int64)
    flags = [
        np.array([row[at] for row in steps], np.bool_).reshape(len(steps), -1) for at in (3, 4)
    ]
    terminated, truncated = flags
    rows, envs = np.nonzero(terminated | truncated)
    kinds = terminated[rows, envs] + 2 * truncated[rows, envs].astype(np.int64)
    return np.stack([rows + first_step, envs, kinds], axis=1).astype(np.int64)
