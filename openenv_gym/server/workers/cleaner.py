"""Ends what a session has left: processes, files, shared memory.

Run as a script (standard library only, so that it starts in milliseconds):

    cleaner.py MARKER DIRECTORY remove|keep [USER CLEANER]

With USER it takes that user's rights and no others. It is not that user itself (its real user is
CLEANER, whom nobody else is), so that what it is about to kill can neither kill nor stop it.
Without USER it finds processes by the marker that they inherited. DIRECTORY is emptied, and removed
where that is asked for. The exit code is 0 where nothing is left.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time


__all__ = ["MARKER", "empty_directory", "main"]

MARKER = "OPENENV_SESSION"  # variable by which what a session started is found

_KILL_S = 5.0
_IPC_RMID = 0
_KINDS = {"shm": "shmctl", "sem": "semctl", "msg": "msgctl"}


def main() -> int:
    """Clean up and return the exit code."""
    marker, directory, what, *users = sys.argv[1:]
    if users:
        user, cleaner = map(int, users)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(cleaner, user, cleaner)
        gone = _kill_user(user)
        _remove_shared_memory(user)
    else:
        gone = _kill_marked(marker)
    try:
        empty_directory(directory)
        if what == "remove":
            os.rmdir(directory)
    except FileNotFoundError:
        pass  # an earlier one of us was faster
    except OSError as error:
        print(f"Cannot empty {directory}: {error}", file=sys.stderr)
        return 1
    return 0 if gone else 1


def _kill_user(user: int) -> bool:
    """Kill all that may be killed: the processes of one user, none of which can get away.

    The kernel goes through all processes at once, and lets none fork that is to die.
    """
    end_s = time.monotonic() + _KILL_S
    while time.monotonic() < end_s:
        with contextlib.suppress(OSError):  # whether anybody was killed it does not tell
            os.kill(-1, signal.SIGKILL)
        if not any(_belongs_to(pid, user) for pid in _processes()):
            return True
        time.sleep(0.01)
    return False


def _belongs_to(pid: int, user: int) -> bool:
    """Tell whether a process that lives is a user's."""
    try:
        with open(f"/proc/{pid}/status") as status:
            facts = dict(line.split(":", 1) for line in status if ":" in line)
    except OSError:  # gone
        return False
    return int(facts["Uid"].split()[0]) == user and facts["State"].split()[0] not in "ZX"


def _kill_marked(marker: str) -> bool:
    end_s = time.monotonic() + _KILL_S
    while time.monotonic() < end_s:
        found = [pid for pid in _processes() if _is_marked(pid, marker)]
        if not found:
            return True
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return False


# As in `providers.guardian`: each of the two runs alone, and imports nothing.


def _processes() -> list[int]:
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return []


def _is_marked(pid: int, marker: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            return f"{MARKER}={marker}".encode() in environ.read().split(b"\0")
    except OSError:  # gone, or another user's
        return False


def _remove_shared_memory(user: int) -> None:
    """Remove System V shared memory, semaphores and queues, which outlive their makers."""
    libc = ctypes.CDLL(None, use_errno=True)
    for kind, function in _KINDS.items():
        with contextlib.suppress(OSError), open(f"/proc/sysvipc/{kind}") as table:
            names = table.readline().split()
            for line in table:
                row = dict(zip(names, line.split(), strict=False))
                if str(user) in (row["uid"], row["cuid"]):
                    number = int(row[f"{kind}id"])
                    arguments = (0, _IPC_RMID) if kind == "sem" else (_IPC_RMID, None)
                    getattr(libc, function)(number, *arguments)


def empty_directory(directory: str) -> None:
    """Remove all that is in a directory, however deep and whatever its modes; follow nothing.

    It goes down and up again by single steps, for a path may be longer than the system takes.
    """
    os.chmod(directory, 0o700)
    _enter(directory)
    levels = [_remove_files()]
    names: list[str] = []
    while True:
        if levels[-1]:
            names.append(levels[-1].pop())
            os.chmod(names[-1], 0o700)
            _enter(names[-1])
            levels.append(_remove_files())
        elif names:
            levels.pop()
            os.chdir("..")
            os.rmdir(names.pop())
        else:
            os.chdir("/")
            return


def _enter(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchdir(fd)
    finally:
        os.close(fd)


def _remove_files() -> list[str]:
    """Remove what is here and is no directory; return the directories."""
    directories = []
    with os.scandir() as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
            else:
                os.unlink(entry.name)
    return directories


if __name__ == "__main__":
    sys.exit(main())
