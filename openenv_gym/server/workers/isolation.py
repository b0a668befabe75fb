"""Where the process of a session runs: its user, its temporary directory, and what ends both."""

from __future__ import annotations

import contextlib
import logging
import os
import pwd
import secrets
import stat
import subprocess
import sys
import tempfile
import uuid
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from openenv_gym import errors
from openenv_gym.server.workers.cleaner import MARKER


__all__ = ["Slot", "Slots", "can_change_user", "free_users"]

_log = logging.getLogger("openenv_gym.server")

_USERS = range(20_000, 60_000)
_CLEANER = str(Path(__file__).with_name("cleaner.py"))
_CAP_SETGID, _CAP_SETUID = 6, 7  # capabilities(7)


@dataclass(frozen=True)
class Slot:
    """What one session process at a time has for itself.

    Attributes:
        directory: Its temporary directory, which nobody else can enter.
        user: Its user and group; None: those of the supervisor.
        lasting: The directory stays when the session has ended, empty.
        marker: By which what it starts is found where it has no user of its own.
    """

    directory: str
    user: int | None
    lasting: bool
    marker: str

    def environ(self) -> dict[str, str]:
        """Return the variables of a process that runs here."""
        own = dict.fromkeys(("TMPDIR", "HOME"), self.directory)
        return {**os.environ, **own, MARKER: self.marker}

    def credentials(self) -> dict[str, object]:
        """Return the arguments with which `subprocess.Popen` changes the user."""
        if self.user is None:
            return {}
        return {"user": self.user, "group": self.user, "extra_groups": []}

    def discard(self) -> None:
        """Remove what nobody has used."""
        if not self.lasting:
            with contextlib.suppress(OSError):
                os.rmdir(self.directory)

    def clean(self) -> subprocess.Popen[bytes]:
        """Begin to end all that was started here, and to remove what it left."""
        what = "keep" if self.lasting else "remove"
        users = [] if self.user is None else [str(self.user), str(self.user + 1)]
        return subprocess.Popen(
            [sys.executable, "-I", "-S", _CLEANER, self.marker, self.directory, what, *users],
            stdin=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
        )


class Slots:
    """All slots of a server.

    Args:
        count: How many there are.
        directory: Holds a directory for each, made by whoever made the container and called by
            its number; None: they are made when they are needed.
        first_user: Owner of the directory 0; that of the next one is two more, since what cleans
            up is a user in between.

    Attributes:
        separates: Each session has a user of its own.

    Raises:
        IsolationError: The directories are not what was promised, or this process cannot change
            the user.
    """

    def __init__(
        self, count: int, *, directory: str | None = None, first_user: int | None = None
    ) -> None:
        self._free: deque[int] = deque(range(count))
        self._taken: dict[str, int] = {}
        self._directory = directory
        self._first_user = first_user
        self.separates = can_change_user()
        if directory is not None:
            self._check(count)
        elif not self.separates:
            _log.warning(
                "Sessions get a process and a temporary directory of their own, but NOT a user of "
                "their own, for this process may not change its user: they can kill each other "
                "and read each other's files. Run it as root to separate them."
            )
        elif first_user is None:
            self._first_user = free_users(2 * count)

    def __len__(self) -> int:
        return len(self._free)

    def take(self) -> Slot | None:
        """Take one that is free; None where none is.

        Raises:
            OSError: No directory can be made.
        """
        if not self._free:
            return None
        number = self._free.popleft()
        user = None
        if self.separates:
            assert self._first_user is not None
            user = self._first_user + 2 * number
        try:
            directory = self._make(number, user)
        except OSError:
            self._free.append(number)
            raise
        slot = Slot(directory, user, self._directory is not None, uuid.uuid4().hex)
        self._taken[slot.marker] = number
        return slot

    def give_back(self, slot: Slot, *, clean: bool) -> None:
        """Take it back, for the next session where nothing is left of the last one."""
        number = self._taken.pop(slot.marker)
        if clean:
            self._free.append(number)
        else:
            _log.error("What a session left in %s cannot be removed: not used again", slot)

    def _make(self, number: int, user: int | None) -> str:
        if self._directory is not None:
            return os.path.join(self._directory, str(number))
        directory = tempfile.mkdtemp(prefix="openenv-session-")  # with mode 0700
        if user is not None:
            try:
                os.chown(directory, user, user)
            except OSError:
                os.rmdir(directory)
                raise
        return directory

    def _check(self, count: int) -> None:
        if not self.separates:
            raise errors.IsolationError(
                "Sessions of an environment that runs untrusted code were to share this "
                "container, and their processes cannot be separated: the server may not change "
                "its user (it needs the capabilities SETUID and SETGID).",
                hint="Leave num_servers= away: then each gets a container of its own.",
            )
        assert self._directory is not None
        assert self._first_user is not None
        for number in range(count):
            path = os.path.join(self._directory, str(number))
            user = self._first_user + 2 * number
            try:
                found = os.stat(path, follow_symlinks=False)
                good = (found.st_uid, stat.S_IMODE(found.st_mode)) == (user, 0o700)
                good &= stat.S_ISDIR(found.st_mode)
            except OSError:
                good = False
            if not good:
                raise errors.IsolationError(
                    f"{path} is no directory that the user {user} alone can enter."
                )


def can_change_user() -> bool:
    """Tell whether this process may run others as users of their own."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    with contextlib.suppress(OSError), open("/proc/self/status") as status:
        for line in status:
            if line.startswith("CapEff:"):
                held = int(line.split()[1], 16)
                return bool(held >> _CAP_SETUID & 1 and held >> _CAP_SETGID & 1)
    return False


def free_users(count: int) -> int:
    """Choose so many numbers in a row that are no user of this system, and return the first.

    Raises:
        IsolationError: There are none.
    """
    known = {entry.pw_uid for entry in pwd.getpwall()}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            # Of all its users: the owner of the directory is root for some that are another's.
            with contextlib.suppress(OSError):
                if name.isdigit():
                    with open(f"/proc/{name}/status") as status:
                        found = next(line for line in status if line.startswith("Uid:"))
                    known.update(map(int, found.split()[1:]))
    for _ in range(100):
        first = secrets.choice(range(_USERS.start, max(_USERS.stop - count, _USERS.start + 1)))
        if not known.intersection(range(first, first + count)):
            return first
    raise errors.IsolationError(
        f"No {count} numbers in a row from {_USERS.start} to {_USERS.stop - 1} are free for the "
        "users of sessions.",
        hint="Lower --capacity.",
    )
