"""One process of a user builds images at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from openenv_gym.providers.docker.build import Say


__all__ = ["one_builder"]

_BUILD_S = 1200.0  # no build takes longer


@contextlib.contextmanager
def one_builder(say: Say) -> Iterator[None]:
    """Let one process of this user build at a time: the others need the same images.

    Where no lock can be had, or its holder takes too long, they build side by side.
    """
    descriptor = _open_lock()
    if descriptor is None:
        yield
        return
    try:
        end_s, told = time.monotonic() + _BUILD_S, False
        while time.monotonic() < end_s:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    say("waiting for another process that builds images ...")
                told = True
                time.sleep(0.1)
        yield
    finally:
        os.close(descriptor)


def _open_lock() -> int | None:
    # In a directory of our own: nobody else can make the file first, or hold it.
    directory = Path(tempfile.gettempdir(), f"openenv-gym-{os.getuid()}")
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        facts = directory.lstat()
        if facts.st_uid != os.getuid() or not stat.S_ISDIR(facts.st_mode) or facts.st_mode & 0o077:
            return None
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(directory / "images.lock", flags, 0o600)
    except OSError:
        return None
