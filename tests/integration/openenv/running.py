"""Servers of this library and of OpenEnv, and OpenEnv's own programs."""

from __future__ import annotations

import contextlib
import os
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.ports import reserved_port
from tests.support.waiting import eventually


ROOT = Path(__file__).resolve().parents[3]
RELEASES = ("0.10", "0.3")


class Running(NamedTuple):
    """A server in a process of its own."""

    url: str
    process: subprocess.Popen[bytes]


def openenv_program(name: str, release: str = "0.10") -> Path:
    """Return a program of the virtual environment of a release, or skip the test."""
    program = ROOT / ".venvs" / f"openenv-{release}" / "bin" / name
    if not program.exists():
        pytest.skip(f"OpenEnv {release} is not installed: run `python3 dev.py openenv`")
    return program


@contextlib.contextmanager
def theirs(script: Path, *arguments: object, release: str = "0.10") -> Iterator[str]:
    """Run a script that serves with OpenEnv on the port that it is given; yield its address."""
    command = [openenv_program("python", release), script, "{port}", *arguments]
    with launched(command) as server:
        yield server.url


@contextlib.contextmanager
def ours(environment: str, *arguments: str) -> Iterator[str]:
    """Run a server of this library; yield its address."""
    command = [sys.executable, "-m", "openenv_gym.server", environment, "--port", "0", *arguments]
    if "--isolate-sessions" in arguments and os.geteuid() == 0:
        # Users of their own may not be able to read this checkout.
        command = ["setpriv", "--bounding-set=-setuid,-setgid", *command]
    with _started(command, ROOT) as (process, log):

        def serves() -> bool:
            assert process.poll() is None, log.read_text()
            return " on http://" in log.read_text()

        assert eventually(serves, 90), log.read_text()
        yield "http://" + log.read_text().partition(" on http://")[2].split()[0]


@contextlib.contextmanager
def launched(
    command: Sequence[object], *, cwd: Path | str = ROOT, certificate: Path | None = None
) -> Iterator[Running]:
    """Run a server of OpenEnv; ``{port}`` in the command becomes a free port.

    Args:
        command: What to run.
        cwd: Where to run it.
        certificate: What it shows, where it serves with TLS.
    """
    context = ssl.create_default_context(cafile=certificate) if certificate else None
    with contextlib.ExitStack() as stack:
        port = str(stack.enter_context(reserved_port()))
        url = f"{'https' if certificate else 'http'}://localhost:{port}"
        words = [str(part).replace("{port}", port) for part in command]
        process, log = stack.enter_context(_started(words, cwd))

        def serves() -> bool:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{url}/health", timeout=5, context=context).close()
                # If it ended, somebody else has this number on another interface, and answers.
                assert process.poll() is None, log.read_text()
                return True
            assert process.poll() is None, log.read_text()
            return False

        assert eventually(serves, 90), log.read_text()
        yield Running(url, process)


@contextlib.contextmanager
def _started(command: list[str], cwd: Path | str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Run a command until the block is left; yield its process and what it prints."""
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "log"
        with log.open("wb") as file:
            # What a server that is killed leaves behind goes with the directory, which users that
            # sessions have of their own may enter.
            os.chmod(directory, 0o711)
            environment = {**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": directory}
            process = subprocess.Popen(command, cwd=cwd, stdout=file, stderr=file, env=environment)
        try:
            yield process, log
        finally:
            process.kill()
            process.wait(20)
