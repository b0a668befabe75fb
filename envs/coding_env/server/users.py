"""Whom programs run as: a user that no other session has, where this server may give them one."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import socket
import sys

from coding_env.server.inside.landlock import WITH_FILES
from coding_env.server.inside.limits import others_can_read
from openenv_gym.errors import IsolationError
from openenv_gym.server.workers.isolation import can_change_user, free_users


__all__ = ["User", "check_reading", "take_user"]

_ATTEMPTS = 100

_log = logging.getLogger("openenv_gym.server")


class User:
    """A user that programs run as.

    Args:
        number: Of user and group; None: those of this server.
        held: What keeps others from taking it.

    Attributes:
        number: It.
        apart: Its rights are its own: it can read what everybody can read, and nothing else.
    """

    def __init__(self, number: int | None, held: socket.socket | None = None) -> None:
        self.number = number
        self.apart = number is not None and others_can_read(os.__file__)
        self._held = held

    def give_back(self) -> None:
        """Let others take it; nothing of it may be left."""
        if self._held is not None:
            self._held.close()


def take_user() -> User:
    """Take a user that no other session has.

    Raises:
        IsolationError: Nothing would bound what programs start, here.
    """
    if sys.platform != "linux":
        raise IsolationError(f"Programs are run on Linux alone, not on {sys.platform}.")
    if not can_change_user():
        if 0 in os.getresuid():
            raise IsolationError(
                "Programs are not run as root, for the kernel bounds no processes of root, and "
                "this server may not give them another user.",
                hint="Run the server as another user; or give it the capabilities SETUID and "
                "SETGID, so that each session gets a user of its own.",
            )
        return User(None)
    for _ in range(_ATTEMPTS):
        number = free_users(1)
        # A name that one process of this machine (or container) can have, until it ends.
        held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with contextlib.suppress(OSError):
            held.bind(f"\0openenv-user-{number}")
            return User(number, held)
        held.close()
    raise IsolationError("No user is free for the programs of another session.")


def check_reading(landlock: int) -> None:
    """Refuse, or warn, where programs may read what others may not, in order to read Python.

    Args:
        landlock: Its version; 0 where the kernel has none.

    Raises:
        IsolationError: Nothing would hold them back.
    """
    if landlock < WITH_FILES:
        raise IsolationError(
            f"No user but root can read {os.__file__}: programs would have to be able to read all "
            "files of this machine.",
            hint="Install Python where all users can read it, such as /usr or /opt.",
        )
    _warn_of_reading()


@functools.cache  # once is enough
def _warn_of_reading() -> None:
    _log.warning(
        "No user but root can read %s: programs can pass over the modes of files, and are held "
        "back by the kernel's Landlock alone.",
        os.__file__,
    )
