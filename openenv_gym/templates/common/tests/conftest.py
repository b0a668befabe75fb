"""A server, for tests of what clients see."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def server() -> Iterator[str]:
    """Yield the address of a server of the package, in a process of its own."""
    command = [sys.executable, "-m", "openenv_gym.server", "template_env", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
        process.terminate()
