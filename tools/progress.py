"""Lines of progress, to standard error: standard output is the command's own."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


__all__ = ["say", "show_passing", "step"]


def say(text: str) -> None:
    """Print a line of progress; it stays."""
    print(f"dev: {text}", file=sys.stderr, flush=True)


@contextmanager
def step(text: str) -> Iterator[None]:
    """Say what begins, and how long it took once it has succeeded."""
    say(f"{text} ...")
    begin = time.monotonic()
    yield
    say(f"    done in {time.monotonic() - begin:.1f} s")


def show_passing(text: str) -> None:
    """Show a line that the next one replaces; nothing where the output is no terminal."""
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns - 6
        line = f"     {text[:width]}" if text else ""
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
