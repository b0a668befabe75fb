"""A small process that ends servers whose owner is gone, however it went.

Run as a script (standard library only, so that it starts in milliseconds), it reads lines from its
standard input: ``+PID`` to watch a process group, ``-PID`` to forget it. When the input ends, which
the kernel sees to even after SIGKILL, it gives servers a moment to end by themselves and kills the
rest, with all their children. Imported, it offers `Guardian`, the owner's side.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time


__all__ = ["Guardian", "guardian"]

_GRACE_S = 1.0


class Guardian:
    """The owner's side: one guardian process for each process that owns servers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._watched: set[int] = set()

    def watch(self, pid: int) -> None:
        """Have the process group `pid` killed when this process is gone."""
        with self._lock:
            self._watched.add(pid)
            if not self._write(f"+{pid}\n"):
                self._restart()

    def forget(self, pid: int) -> None:
        """Take it back: the server has ended."""
        with self._lock:
            self._watched.discard(pid)
            self._write(f"-{pid}\n")

    def _restart(self) -> None:
        self._end()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in the terminal is not meant for it
            cwd="/",
        )
        self._write("".join(f"+{pid}\n" for pid in self._watched))

    def _write(self, text: str) -> bool:
        process = self._process
        if process is None or process.stdin is None:
            return False
        try:
            os.write(process.stdin.fileno(), text.encode())
        except OSError:
            return False
        return True

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.wait()

    def end(self) -> None:
        """End the guardian; it kills what is still watched."""
        with self._lock:
            self._end()

    def after_fork(self) -> None:
        """In a forked child: leave the parent's guardian alone, and do not keep its input open."""
        process, self._process = self._process, None
        self._lock = threading.Lock()
        self._watched = set()
        if process is not None and process.stdin is not None:
            process.returncode = 0  # not our child: nothing to wait for
            with contextlib.suppress(OSError):
                process.stdin.close()


guardian = Guardian()
os.register_at_fork(after_in_child=guardian.after_fork)
atexit.register(guardian.end)


def _main() -> None:
    watched: dict[int, str] = {}
    for line in sys.stdin:
        pid = int(line[1:])
        if line[0] == "+":
            watched[pid] = _birth(pid)
        else:
            watched.pop(pid, None)
    end_s = time.monotonic() + _GRACE_S
    while watched and time.monotonic() < end_s:
        time.sleep(0.02)
        watched = {pid: birth for pid, birth in watched.items() if _birth(pid) == birth != ""}
    for pid, birth in watched.items():
        # The number may have been given to another process meanwhile.
        if _birth(pid) == birth:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)


def _birth(pid: int) -> str:
    """Return what tells a process from a later one of the same number; "" where it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        try:  # no /proc on this system
            os.kill(pid, 0)
        except OSError:
            return ""
        return "" if os.path.isdir("/proc/self") else "unknown"
    return "" if fields[0] == "Z" else fields[19]


if __name__ == "__main__":
    _main()
