"""What every driver shares: answering the harness, ending in time, prepared actions.

Standard library only: some drivers run in virtual environments of their own.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from importlib import metadata
from typing import Any


__all__ = [
    "ACTIONS",
    "SEED",
    "Round",
    "child",
    "raise_descriptor_limit",
    "serve",
    "until_stdin_ends",
    "versions",
]

ACTIONS = 4096  # prepared beforehand and taken in turn, so that drawing them is not measured
SEED = 7

_SPARE_DESCRIPTORS = 128  # beside one for each session

Round = Callable[[int], float]


def serve(start: Callable[[dict[str, Any]], Generator[Round, None, None]]) -> None:
    """Answer the harness until it ends the conversation.

    Args:
        start: Takes the contender's options and yields once: a function that takes a number of
            steps and returns the seconds that they took (or holds as many sessions and returns the
            bytes that they take). It closes down when it is resumed.
    """
    answers = _private_stdout()

    def answer(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=answers, flush=True)

    options = json.loads(sys.stdin.readline())
    with contextmanager(start)(options) as take_round:
        answer(versions("numpy", "gymnasium", "ale-py", "websockets", "uvloop", "openenv"))
        for line in sys.stdin:
            answer({"amount": take_round(json.loads(line)["steps"])})


def _private_stdout() -> Any:
    """Move standard output aside, since libraries that print would break the conversation."""
    private = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return private


def versions(*distributions: str) -> dict[str, str]:
    """Return the versions of those distributions that are installed, and Python's."""
    found = {"python": sys.version.split()[0]}
    for name in distributions:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


@contextmanager
def child(module: str, *arguments: str) -> Generator[tuple[str, int], None, None]:
    """Run a module of this package as a server, and end it with this process.

    Args:
        module: Its name below ``benchmarks.drivers``.
        arguments: Its arguments.

    Yields:
        The line that it prints when it is ready, and its process id.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", f"benchmarks.drivers.{module}", *arguments],
        stdin=subprocess.PIPE,  # ends with this process, which ends the server
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        ready = process.stdout.readline().strip()
        if not ready:
            raise RuntimeError(f"{module} ended before it was ready")
        yield ready, process.pid
    finally:
        process.stdin.close()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def until_stdin_ends(then: Callable[[], object]) -> None:
    """Call `then`, from a thread, when the process that started this one is gone or asks for it."""

    def wait() -> None:
        sys.stdin.read()
        then()

    threading.Thread(target=wait, daemon=True).start()


def raise_descriptor_limit(sessions: int) -> None:
    """Let this process open a file for each of so many sessions.

    Raises:
        RuntimeError: It may not.
    """
    wanted = sessions + _SPARE_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise RuntimeError(
                f"{wanted} open files are needed for {sessions} sessions, and {hard} are allowed: "
                "raise the hard limit (ulimit -Hn)"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
