"""Files that a process may use from now on, and whom it may signal: Landlock.

It asks for no right, and holds for the process and all that it starts, for good. Where the kernel
has no Landlock (Linux 5.13, and 6.12 for signals), files are bounded by their permissions alone.

Sources: landlock(7); the kernel's ``include/uapi/linux/landlock.h``.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
from collections.abc import Sequence


__all__ = ["WITH_FILES", "WITH_SIGNALS", "confine", "version"]

WITH_FILES, WITH_SIGNALS = 1, 6
"""Versions from which on files, and signals and abstract sockets, are held back."""

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446  # system calls, the same on all machines
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_SCOPES = 3  # abstract Unix sockets, signals

_EXECUTE, _WRITE, _READ, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE = 1 << 14
_ALL = {1: (1 << 13) - 1, 2: (1 << 14) - 1}
_ALL_SINCE_3 = (1 << 15) - 1
_DEVICES = 1 << 6 | 1 << 11  # to make device files
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE


def version() -> int:
    """Return the version of Landlock that the kernel has; 0 where it has none, or refuses it."""
    found: int = _libc().syscall(_CREATE, None, 0, _VERSION_FLAG)
    return max(found, 0)


def confine(
    readable: Sequence[str],
    writable: Sequence[str],
    hidden: Sequence[str] = (),
) -> int:
    """Use no other files, and signal no process but one's own and what that starts, from now on.

    Args:
        readable: What may be read, listed and run, with everything below.
        writable: What may be changed, too.
        hidden: What of the readable must not be read, under whatever name it is reached.

    Returns:
        The version of Landlock; 0 where nothing was done.

    Raises:
        OSError: The kernel has Landlock and refuses this.
    """
    found = version()
    if found < WITH_FILES:
        return 0
    handled = _ALL.get(found, _ALL_SINCE_3)
    # struct landlock_ruleset_attr, as long as the kernel's version knows it.
    attributes = struct.pack("QQQ", handled, 0, _SCOPES if found >= WITH_SIGNALS else 0)
    size = 24 if found >= WITH_SIGNALS else 8
    ruleset = _checked(_libc().syscall(_CREATE, attributes[:size], size, 0))
    try:
        # The kernel knows files, not names: only paths without links say what is below what.
        hidden = [os.path.realpath(path) for path in hidden]
        for path in map(os.path.realpath, readable):
            _allow_reading(ruleset, path, [each for each in hidden if _is_below(each, path)])
        for path in writable:
            _allow(ruleset, path, handled & ~_DEVICES)
        _checked(_libc().syscall(_RESTRICT, ruleset, 0))
    finally:
        os.close(ruleset)
    return found


def _allow_reading(ruleset: int, path: str, hidden: Sequence[str]) -> None:
    """Allow a path; where something below it is hidden, all of its other entries, one by one."""
    if path in hidden:
        return
    if not hidden:
        _allow(ruleset, path, _READ | _LIST | _EXECUTE)
        return
    _allow(ruleset, path, _LIST)  # names alone: of what is hidden, too
    for name in os.listdir(path):
        entry = os.path.join(path, name)
        if os.path.islink(entry):
            # A right would be to what it points to, which may hold what is hidden. What is
            # readable has a rule where it really lies.
            continue
        _allow_reading(ruleset, entry, [each for each in hidden if _is_below(each, entry)])


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _allow(ruleset: int, path: str, rights: int) -> None:
    # What is not there, or cannot be reached, needs no rule.
    with contextlib.suppress(OSError):
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not stat.S_ISDIR(os.fstat(opened).st_mode):
                rights &= _OF_FILES
            rule = struct.pack("=Qi", rights, opened)
            _checked(_libc().syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0))
        finally:
            os.close(opened)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return result


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
