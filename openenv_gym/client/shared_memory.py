"""Memory for a server to leave large observations in (docs/protocol.md, section 4.6)."""

from __future__ import annotations

import mmap
import os
import sys
from typing import NamedTuple

from openenv_gym.protocol.limits import SHARED_MEMORY


__all__ = ["FEATURES", "SharedMemory", "share_memory"]

_AVAILABLE = sys.platform == "linux" and hasattr(os, "memfd_create")

FEATURES: tuple[str, ...] = (SHARED_MEMORY,) if _AVAILABLE else ()
"""What this client can do, for HELLO."""


class SharedMemory(NamedTuple):
    """Memory that a server can map, too.

    Attributes:
        view: The memory; to be read only.
        descriptor: What the server maps; to be closed once it has been sent.
    """

    view: memoryview
    descriptor: int


def share_memory(size_bytes: int) -> SharedMemory:
    """Make memory that lasts as long as somebody has it mapped.

    Nobody can change its size, so that an access cannot fail on either side.

    Raises:
        OSError: The system has no more.
    """
    assert sys.platform == "linux"
    import fcntl

    descriptor = os.memfd_create("openenv-gym", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, size_bytes)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
        view = memoryview(mmap.mmap(descriptor, size_bytes, mmap.MAP_SHARED, mmap.PROT_READ))
    except BaseException:
        os.close(descriptor)
        raise
    return SharedMemory(view, descriptor)
