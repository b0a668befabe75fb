"""Ctrl-C, as a terminal sends it to a command and to all that it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable

from tests.support.waiting import eventually


__all__ = ["interrupt"]


def interrupt(*arguments: str, once: Callable[[], bool]) -> str:
    """Run ``openenv-gym``, interrupt it, and return what it said on standard error.

    Args:
        *arguments: Its arguments.
        once: True where it is far enough.
    """
    command = [sys.executable, "-m", "openenv_gym.cli", *arguments]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr is not None
        assert eventually(lambda: once() or process.poll() is not None, 300)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) == 1
        said = process.stderr.read()
    assert "Traceback" not in said
    return said
