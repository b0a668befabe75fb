"""Servers of this library and of OpenEnv, and OpenEnv's own programs."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import eventually


ROOT = Path(__file__).resolve().parents[3]
BIN = ROOT / ".venvs" / "openenv-0.10" / "bin"


def openenv_program(name: str) -> Path:
    """Return a program of OpenEnv's virtual environment, or skip the test."""
    program = BIN / name
    if not program.exists():
        pytest.skip("OpenEnv 0.10 is not installed: run `python3 dev.py openenv`")
    return program


@contextlib.contextmanager
def theirs(script: Path, *arguments: object) -> Iterator[str]:
    """Run a script that serves with OpenEnv on the port that it is given; yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [openenv_program("python"), script, port, *arguments]
    with _running(list(map(str, command)), f"http://127.0.0.1:{port}") as (url, _):
        yield url


@contextlib.contextmanager
def ours(environment: str, *arguments: str) -> Iterator[str]:
    """Run a server of this library; yield its address."""
    command = [sys.executable, "-m", "openenv_gym.server", environment, "--port", "0", *arguments]
    if "--isolate-sessions" in arguments and os.geteuid() == 0:
        # Users of their own may not be able to read this checkout.
        command = ["setpriv", "--bounding-set=-setuid,-setgid", *command]
    with _running(command, None) as (_, log):
        yield "http://" + log.read_text().partition(" on http://")[2].split()[0]


@contextlib.contextmanager
def _running(command: list[str], url: str | None) -> Iterator[tuple[str, Path]]:
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "log"
        with log.open("wb") as file:
            environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
            process = subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=file, env=environment)

        def serves() -> bool:
            assert process.poll() is None, log.read_text()
            if url is None:
                return " on http://" in log.read_text()
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{url}/health", timeout=5).close()
                return True
            return False

        try:
            assert eventually(serves, 90), log.read_text()
            yield url or "", log
        finally:
            process.kill()
            process.wait(20)
