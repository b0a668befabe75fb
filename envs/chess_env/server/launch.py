"""Run an engine within limits: ``python -I -S launch.py PARENT MEMORY_BYTES PROGRAM``.

A program of its own, of the standard library alone: limits are set where no other thread runs, and
the engine takes its place. Linux's prctl(2) has the system kill it when the environment's process
is gone, however that ended.
"""

import ctypes
import os
import resource
import signal
import sys


_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_OPEN_FILES = 64


def main() -> None:
    """Set the limits and become the engine."""
    parent, memory_bytes, program = sys.argv[1:]
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if os.getppid() != int(parent):  # it ended before it could be watched
            sys.exit(1)
    for limit, value in (
        (resource.RLIMIT_AS, int(memory_bytes)),
        (resource.RLIMIT_FSIZE, 0),  # it writes no files
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
    ):
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))
    os.execv(program, [program])


if __name__ == "__main__":
    main()
