"""Starting a server anew after each edit of what it serves."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click

from openenv_gym.server.process import bootstrap


__all__ = ["serve_and_reload", "syntax_problem"]

_LOOK_S = 0.25
_END_S = 5.0
_WATCHED = (".py", ".yaml", ".yml", ".json", ".toml", ".txt")
_LEFT_OUT = ("__pycache__", "node_modules", "outputs", "build", "dist")

_State = dict[Path, tuple[int, int]]


def serve_and_reload(argv: list[str], folder: Path) -> int:
    """Run a server, and start it anew whenever a file changes, until SIGINT or SIGTERM.

    Args:
        argv: Arguments of ``python -m openenv_gym.server``.
        folder: What is watched: a folder, or a single module.

    Returns:
        The exit code.
    """
    told: list[int] = []  # signals
    asked: subprocess.Popen[bytes] | None = None  # to end

    def stop(signum: int, frame: object) -> None:
        nonlocal asked
        told.append(signum)
        asked = server
        if server.poll() is None:  # twice means now, for the server as well
            server.send_signal(signal.SIGTERM)

    run = seen = _look(folder)
    server = _start(argv)
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, stop)
    _say(f"watching {folder}")
    waiting = False
    while not told:
        if server.poll() is not None and not waiting:
            waiting = True
            _say(f"the server ended with code {server.returncode}; waiting for the next edit")
        time.sleep(_LOOK_S)
        now = _look(folder)
        if told or now == seen:
            continue
        seen = now
        # All that the server does not run yet: one of them that is broken would end it, whichever
        # was saved last.
        changed = sorted(path for path in {*now, *run} if now.get(path) != run.get(path))
        names = ", ".join(os.path.relpath(path, folder.parent) for path in changed)
        if (problem := syntax_problem(changed)) is not None:
            _say(f"{problem}\n{names} changed, and is not run; waiting for the next edit")
            continue
        _say(f"{names} changed; starting anew")
        _end(server)
        if not told:
            run, server, waiting = now, _start(argv), False
    if asked is not server:  # the signal came while this one was being started
        server.send_signal(signal.SIGTERM)
    _wait(server, _drain_s(argv) + _END_S)
    return 0


def syntax_problem(paths: list[Path]) -> str | None:
    """Return what is wrong with the first of these files that is no Python; None for none."""
    for path in paths:
        if path.suffix != ".py":
            continue
        try:
            compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None)
            text = (getattr(error, "text", None) or "").strip()
            shown = f"\n    {text}" if text else ""
            return f"{path}:{line or 1}: {getattr(error, 'msg', error)}{shown}"
        except OSError:  # it was removed, or is being replaced
            continue
    return None


def _start(argv: list[str]) -> subprocess.Popen[bytes]:
    code = bootstrap("openenv_gym.server.__main__")
    return subprocess.Popen(
        [sys.executable, "-c", code, *argv, "--reloaded-by", str(os.getpid())],
        stdin=subprocess.DEVNULL,
        # Bytecode is told from its source by whole seconds, and edits can follow faster.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        start_new_session=True,  # Ctrl-C is for us, who pass it on
    )


def _end(server: subprocess.Popen[bytes]) -> None:
    """Have a server tell its clients that it starts anew, and end."""
    server.send_signal(signal.SIGHUP)
    _wait(server, _END_S)


def _drain_s(argv: list[str]) -> float:
    """Return how long the server waits for its sessions when it is told to stop."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--drain-s", type=float, default=10.0)
    return float(parser.parse_known_args(argv)[0].drain_s)


def _wait(server: subprocess.Popen[bytes], timeout_s: float) -> None:
    """Wait for a server that was told to end; kill it where it does not."""
    try:
        server.wait(timeout_s)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _look(folder: Path) -> _State:
    state = {}
    for path in _files(folder):
        try:
            found = path.stat()
        except OSError:
            continue
        state[path] = (found.st_mtime_ns, found.st_size)
    return state


def _files(folder: Path) -> Iterator[Path]:
    if folder.is_file():
        yield folder
        return
    for place, names, files in os.walk(folder):
        names[:] = [name for name in names if name[0] != "." and name not in _LEFT_OUT]
        for name in files:
            if name.endswith(_WATCHED) and name[0] != ".":
                yield Path(place, name)


def _say(text: str) -> None:
    click.echo(f"openenv-gym: {text}", err=True)
