"""Server and keeper that get their turn late: what was in time is, and what is over is gone."""

from __future__ import annotations

import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coding_env.server import interpreter

from .conftest import Make, run


class Clock:
    """The time, which may have gone on while nobody looked."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_s


def test_a_reply_that_is_there_counts_though_the_server_looks_late(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, talk = Clock(), interpreter._Exchange._talk

    def sleepy(self: interpreter._Exchange) -> tuple[int, str | None] | None:
        reply = talk(self)
        if reply is None and not self._unsent and not clock.ahead_s:
            assert select.select([self._channel], [], [], 60)[0]
            clock.ahead_s = 3600.0
        return reply

    environment = make()
    environment.reset()
    monkeypatch.setattr(interpreter, "time", clock)
    monkeypatch.setattr(interpreter._Exchange, "_talk", sleepy)
    seen = run(environment, "6 * 7")
    assert clock.ahead_s and (seen.exit_code, seen.result, seen.timed_out) == (0, "42", False)


KEEPER = """
import os, signal, socket, sys
from coding_env.server.inside.keeper import Keeper

plan = {"limits": {}, "readable": [], "hidden": [], "user": None, "executor": "", "imports": []}
server = socket.socket(socket.AF_UNIX)
keeper = Keeper(server, {**plan, "directory": sys.argv[1]}, lambda path: None)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})  # it does not come for a while
if os.fork() == 0:
    os._exit(0)
os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
assert keeper._end()["left"] == 0
try:
    print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("nobody")
"""


def test_the_dead_are_noted_before_all_is_said_to_be_over(tmp_path: Path) -> None:
    """Until then they count among the processes that the next interpreter may have."""
    done = subprocess.run(
        [sys.executable, "-c", KEEPER, tmp_path],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("nobody\n", "")
