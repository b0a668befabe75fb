"""Recordings for tests: made without an environment, changed, and compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from openenv_gym import recording


Row = recording.Reset | recording.Step


def write(
    path: Path,
    rows: Iterable[Row],
    *,
    metadata: dict[str, Any] | None = None,
    num_envs: int = 0,
    limits: recording.Limits | None = None,
    compression: str | None = None,
    autoreset_mode: str | None = None,
) -> Path:
    """Write rows; their numbers are counted anew."""
    vector = {"num_envs": num_envs, "autoreset_mode": autoreset_mode} if num_envs else None
    writer = recording.RolloutWriter(
        path,
        metadata or {"vector": vector, "spaces": {}},
        num_envs=num_envs,
        limits=limits,
        compression=compression,
        overwrite=True,
    )
    for row in rows:
        if isinstance(row, recording.Reset):
            writer.add_reset(row.seed, row.options, row.observation, row.info)
        else:
            writer.add_step(*row[1:7])
    writer.close()
    return path


def changed(path: Path, out: Path, change: Callable[[Row], Row]) -> Path:
    """Write a recording again, with rows that were tampered with."""
    with recording.open(path) as file:
        return write(out, map(change, file.rows()), metadata=file.metadata, num_envs=file.num_envs)


def numbers(count: int) -> list[Row]:
    """Return a reset and steps that hold their number."""
    steps = [recording.Step(at, at, float(at), at / 2, False, False, {}) for at in range(count)]
    return [recording.Reset(0, 1, None, -1.0, {}), *steps]
