"""The first program of a task: it runs the server, and says how it ended.

Its text is what the task's Python runs (``python -I -S -c TEXT COMMAND...``), so that every image
has it: the standard library alone, and it starts in milliseconds.

It does two things that Swarm itself cannot: no program of the task ever gains rights
(``no-new-privileges``, prctl(2)); and when the kernel has ended the server for want of memory, the
task ends with `OUT_OF_MEMORY`, because Swarm tells exit codes and nothing else.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys


__all__ = ["OUT_OF_MEMORY", "main"]

OUT_OF_MEMORY = 112
"""Exit code of a task whose server the kernel has ended for want of memory."""

_PR_SET_NO_NEW_PRIVS = 38
_COUNTS = (
    "/sys/fs/cgroup/memory/memory.oom_control",  # control groups, version 1
    "/sys/fs/cgroup/memory.events",  # version 2
)


def main(command: list[str]) -> int:
    """Run a command to its end, and return the exit code of the task."""
    if ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        print("launcher: the kernel refuses no-new-privileges", file=sys.stderr)
        return 1
    stops = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)  # until there is somebody to pass them on to
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, stops)
        os.execvp(command[0], command)
    for signum in stops:
        signal.signal(signum, lambda signum, frame: os.kill(pid, signum))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, stops)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code >= 0:
        return code
    if code == -signal.SIGKILL and _killed_for_memory():
        print("launcher: the server was killed, because its memory is used up", file=sys.stderr)
        return OUT_OF_MEMORY
    return 128 - code


def _killed_for_memory() -> bool:
    """Tell whether the kernel has ended anything in here for want of memory."""
    for path in _COUNTS:
        try:
            with open(path) as file:
                counts = dict(line.split() for line in file)
        except OSError:
            continue  # the other version
        return int(counts.get("oom_kill", 0)) > 0
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
