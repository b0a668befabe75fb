"""Memory of sessions that have ended, back to the system."""

from __future__ import annotations

import ctypes
import gc
import sys


__all__ = ["give_back_memory"]


def give_back_memory() -> None:
    """Free what only the garbage collector finds, and have the allocator let go of what is free.

    Environments hold themselves in many ways, and the collector, which counts objects and not
    bytes, comes by late. What it frees the allocator of glibc then keeps for later, however much.
    """
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        if trim is not None:
            trim(0)
