"""How a process that serves begins, and what it does to itself."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import signal
import sys


__all__ = [
    "bootstrap",
    "close_to_others",
    "die_with",
    "gain_nothing",
    "raise_descriptor_limit",
    "signal_name",
]

_PR_SET_PDEATHSIG = 1  # prctl(2)
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_SPARE_DESCRIPTORS = 64  # beside one for each session

_log = logging.getLogger("openenv_gym.server")


def bootstrap(module: str, *, inherit: bool = True) -> str:
    """Return code that runs a module's `main` with what this process can import, and nothing else.

    With ``-m`` the working directory would come first, and a ``random.py`` there be run.

    Args:
        module: Its name.
        inherit: Take what this process can import; else what the interpreter that runs the code
            has of its own.
    """
    run = f"from {module} import main; sys.exit(main())"
    if not inherit:
        return f"import sys; sys.path[:] = [entry for entry in sys.path if entry]; {run}"
    here = ""
    with contextlib.suppress(FileNotFoundError):  # it was removed
        here = os.getcwd()
    path = [entry or here for entry in sys.path]
    return f"import sys; sys.path[:] = {path!a}; {run}"


def close_to_others() -> None:
    """Keep programs of the same user, which an environment may start, from reading our memory."""
    _prctl(_PR_SET_DUMPABLE, 0)


def die_with(parent: int) -> None:
    """Have the system kill this process when the thread that started it is gone.

    Args:
        parent: Process that started it; where that is gone already, this ends at once.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def gain_nothing() -> None:
    """Never gain rights by running a program."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def signal_name(number: int) -> str:
    """Return what a signal is called; most of the real-time signals have no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def raise_descriptor_limit(capacity: int) -> None:
    """Let the process open as many files as it may, for each session needs a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):  # macOS takes no infinity here
            pass
    if soft != resource.RLIM_INFINITY and capacity + _SPARE_DESCRIPTORS > soft:
        _log.warning(
            "This process may open %d files, which is too few for %d sessions: raise the limit "
            "(ulimit -Hn), or lower --capacity.",
            soft,
            capacity,
        )
