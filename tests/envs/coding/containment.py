"""A place where programs that mean harm do none, even if what is tested fails."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
import uuid
from pathlib import Path

import pytest


__all__ = ["CONTAINED", "FORK_BOMB", "run_contained"]

CONTAINED = "OPENENV_TEST_CONTAINED"
"""Variable that is set there."""

FORK_BOMB = """
import mmap, os, time
forks, end_s = mmap.mmap(-1, 8), time.monotonic() + 20
while time.monotonic() < end_s and int.from_bytes(forks[:], "little") < 5000:
    try:
        os.fork()
        forks[:] = (int.from_bytes(forks[:], "little") + 1).to_bytes(8, "little")
    except OSError:
        pass
"""
"""Ends by itself, in time and number: all that stem from it share the counter."""

_MOST_PROCESSES = 300
_GROUPS = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))  # of cgroups version 1 and 2
_INSIDE = """
echo $$ > "$1/cgroup.procs" || exit 1
shift
exec unshare --pid --fork --mount-proc --kill-child sh -c '"$@"; exit $?' sh "$@"
"""


def run_contained(arguments: list[str], *, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run a command where there can be few processes, and where it can signal no others.

    It has a control group with a bound for processes, and a namespace of process ids in which even
    root sees its own processes alone. The test is skipped where there is no right to make these.
    """
    group = _make_group()
    try:
        if group is None or shutil.which("unshare") is None:
            pytest.skip("no right to make a control group with a bound for processes")
        process = subprocess.Popen(
            ["sh", "-c", _INSIDE, "sh", str(group), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, CONTAINED: "1"},
        )
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()  # and with it all of the namespace
            output, _ = process.communicate()
        return subprocess.CompletedProcess(arguments, process.returncode, output)
    finally:
        if group is not None:
            _remove(group)


def _make_group() -> Path | None:
    for root in _GROUPS:
        group = root / f"openenv-test-{uuid.uuid4().hex}"
        with contextlib.suppress(OSError):
            group.mkdir()
            if (group / "pids.max").exists():
                (group / "pids.max").write_text(str(_MOST_PROCESSES))
                return group
            group.rmdir()
    return None


def _remove(group: Path) -> None:
    end_s = time.monotonic() + 20
    while time.monotonic() < end_s:
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.05)
    raise AssertionError(f"{group} is not empty")
