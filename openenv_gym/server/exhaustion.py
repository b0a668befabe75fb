"""Which limit of its server an environment has run into, seen from what it raised."""

from __future__ import annotations

import errno
from pathlib import Path

from openenv_gym.errors import (
    LimitReachedError,
    OutOfFilesError,
    OutOfPidsError,
    OutOfSpaceError,
)


__all__ = ["limit_reached"]

_BY_ERRNO: dict[int, type[LimitReachedError]] = {
    errno.ENOSPC: OutOfSpaceError,
    errno.EDQUOT: OutOfSpaceError,
    errno.EMFILE: OutOfFilesError,
    errno.ENFILE: OutOfFilesError,
}
_HINTS = {
    OutOfSpaceError: "Give it more: resources=Resources(tmp_bytes=...).",
    OutOfFilesError: "Let it open more: resources=Resources(files=...).",
    OutOfPidsError: "Let it have more: resources=Resources(pids=...).",
}
_WORDS = {
    OutOfSpaceError: "space to write to",
    OutOfFilesError: "open files",
    OutOfPidsError: "processes and threads",
}
_NO_THREAD = "can't start new thread"  # a RuntimeError, by which CPython says EAGAIN
_EVENTS = ("/sys/fs/cgroup/pids/pids.events", "/sys/fs/cgroup/pids.events")


def limit_reached(error: BaseException) -> LimitReachedError | None:
    """Return the error that tells of the limit behind an exception; None where there is none."""
    cause: BaseException | None = error
    while cause is not None:
        if (cls := _class_of(cause)) is not None:
            return cls(
                f"The environment ran out of {_WORDS[cls]}: {type(error).__name__}: {error}",
                hint=_HINTS[cls],
                data={"type": type(error).__name__},
            )
        cause = cause.__cause__
    return None


def _class_of(error: BaseException) -> type[LimitReachedError] | None:
    if isinstance(error, OSError) and error.errno in _BY_ERRNO:
        return _BY_ERRNO[error.errno]
    if isinstance(error, RuntimeError) and _NO_THREAD in str(error):
        return OutOfPidsError
    # A socket that would block says the same as a fork that is refused.
    if isinstance(error, BlockingIOError) and (_is_of_fork(error) or _forks_were_refused()):
        return OutOfPidsError
    return None


def _is_of_fork(error: BaseException) -> bool:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_name in ("_execute_child", "_fork_exec")


def _forks_were_refused() -> bool:
    """Tell whether this container ever had as many processes as it may have."""
    for path in _EVENTS:
        try:
            words = Path(path).read_text().split()
        except OSError:
            continue
        return words[:1] == ["max"] and words[1:2] != ["0"]
    return False
