"""Figures of a session's process, left where its supervisor finds them, whatever becomes of it.

Such a process may run code that means harm, so it is asked nothing, which it could delay. It writes
into a piece of memory of a fixed size that both hold, now and then and at its end; the supervisor
reads it when it likes, and takes what it reads for what that process wants to be believed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import struct
import tempfile
import zlib
from collections import Counter

from openenv_gym import errors
from openenv_gym.server.figures import Figures


__all__ = ["Ledger", "make_ledger"]

_SIZE_BYTES = 16 << 10
_HEAD = struct.Struct("<LL")  # size and CRC-32 of the JSON behind it
_HTTP_CODE = re.compile(r"http_[1-5]\d\d")


class Ledger:
    """One process's figures.

    Args:
        fd: The memory; `make_ledger` makes it. This owns it.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._last = b""
        self._known = Figures()

    def write(self, figures: Figures) -> None:
        """Leave figures, where they have changed."""
        data = json.dumps(figures.to_wire()).encode()
        if data != self._last and _HEAD.size + len(data) <= _SIZE_BYTES:
            os.pwrite(self.fd, _HEAD.pack(len(data), zlib.crc32(data)) + data, 0)
            self._last = data

    def read(self) -> Figures:
        """Return the figures that were left last; where they are nonsense, those before.

        Codes of errors are ours, or ``other``: each one more is a label more.
        """
        with contextlib.suppress(OSError, ValueError, RecursionError):
            content = os.pread(self.fd, _SIZE_BYTES, 0)
            size, check = _HEAD.unpack_from(content)
            data = content[_HEAD.size : _HEAD.size + size]
            if data and zlib.crc32(data) == check:
                found = Figures.from_wire(json.loads(data))
                found.errors = _of_known_codes(found.errors)
                self._known = found
        return self._known

    def close(self) -> None:
        """Close it; safe to repeat."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def make_ledger() -> Ledger:
    """Make an empty one, of a size that nobody can change.

    Raises:
        OSError: The system has no more.
    """
    if not hasattr(os, "memfd_create"):
        with tempfile.TemporaryFile(buffering=0) as file:
            os.ftruncate(file.fileno(), _SIZE_BYTES)
            return Ledger(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 3))
    made = os.memfd_create("openenv-figures", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:  # above 2, for there a process has its standard streams
        fd = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(made)
    try:
        os.ftruncate(fd, _SIZE_BYTES)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    except BaseException:
        os.close(fd)
        raise
    return Ledger(fd)


def _codes() -> set[str]:
    found, left = set[str](), [errors.OpenEnvGymError]
    while left:
        cls = left.pop()
        found.add(cls.code)
        left += cls.__subclasses__()
    return found


def _of_known_codes(counts: Counter[str]) -> Counter[str]:
    known, sorted_out = _codes(), Counter[str]()
    for code, count in counts.items():
        sorted_out[code if code in known or _HTTP_CODE.fullmatch(code) else "other"] += count
    return sorted_out
