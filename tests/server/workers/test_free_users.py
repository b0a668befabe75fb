"""Users for sessions that nobody else is."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from openenv_gym.server.workers import isolation


@pytest.mark.skipif(
    sys.platform != "linux" or not isolation.can_change_user(), reason="may not change users"
)
def test_who_runs_something_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of a process's users it is: its directory in /proc names one of them alone."""
    taken, free = 59_990, 59_991
    monkeypatch.setattr(isolation, "_USERS", range(taken, free + 2))
    code = (
        f"import os; os.setresuid({taken}, 0, 0); print('ready', flush=True); "
        "__import__('time').sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            assert os.stat(f"/proc/{process.pid}").st_uid == 0
            assert {isolation.free_users(1) for _ in range(20)} <= {free, free + 1}
        finally:
            process.kill()
