"""Virtual environments inside the checkout, made once and remembered by a stamp."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

from tools.progress import show_passing, step


__all__ = ["ROOT", "SetupError", "digest_of", "ensure_venv", "read_stamp"]

ROOT = Path(__file__).resolve().parents[1]

_STAMP = "dev.json"  # inside a virtual environment: what `ensure_venv` has put there


class SetupError(Exception):
    """Something is missing; the text says what to do about it."""


def ensure_venv(
    directory: Path,
    requirements: Sequence[str],
    *,
    what: str,
    digest: str = "",
    facts: dict[str, list[str]] | None = None,
) -> str:
    """Make a virtual environment that holds `requirements`, unless it is there already.

    Args:
        directory: Where it is, or shall be.
        requirements: Arguments of ``pip install``.
        what: What is installed, in words, for the progress lines.
        digest: Changes whenever the same requirements must be installed anew.
        facts: Kept in the stamp, for the caller's own use.

    Returns:
        Its interpreter.

    Raises:
        SetupError: It cannot be made.
    """
    python = directory / "bin" / "python"
    wanted = digest_of([digest, sys.version, *requirements])
    if python.exists() and read_stamp(directory).get("digest") == wanted:
        return str(python)
    name = os.path.relpath(directory, ROOT)
    if not _works(python):
        with step(f"making {name} with Python {platform.python_version()}"):
            _make_venv(directory, python)
    # Gone until the installation is complete: an interrupted one starts over.
    (directory / _STAMP).unlink(missing_ok=True)
    with step(f"installing {what} into {name} (the first time takes a minute or two)"):
        _pip_install(python, requirements)
    stamp = {"digest": wanted, **(facts or {})}
    (directory / _STAMP).write_text(json.dumps(stamp, indent=1) + "\n", encoding="utf-8")
    return str(python)


def _works(python: Path) -> bool:
    """Tell whether a virtual environment's interpreter is this Python's and has pip."""
    if not python.exists():
        return False
    code = "import pip, sys; print(*sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return done.stdout.split() == [str(number) for number in sys.version_info[:2]]


def _make_venv(directory: Path, python: Path) -> None:
    venv = [sys.executable, "-m", "venv", "--clear"]
    whole = subprocess.run([*venv, directory], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if whole.returncode == 0:
        return
    # Debian and Ubuntu split `ensurepip` off, into python3-venv. A pip outside helps as well.
    pip = importlib.util.find_spec("pip")
    bare = subprocess.run([*venv, "--without-pip", directory], capture_output=True, text=True)
    if pip is not None and pip.submodule_search_locations and bare.returncode == 0:
        folder = next(iter(pip.submodule_search_locations))
        # --ignore-installed: the pip that runs here is not one that is installed there.
        arguments = ["install", "--quiet", "--ignore-installed", "pip"]
        if subprocess.run([python, folder, *arguments]).returncode == 0:
            return
        problem = "pip could not be installed into it (its own words are above)."
    else:
        problem = (bare.stderr or whole.stdout.decode(errors="replace")).strip()
    shutil.rmtree(directory, ignore_errors=True)
    major, minor = sys.version_info[:2]
    raise SetupError(
        f"cannot make a virtual environment: {problem}\n"
        "Python's `venv` with `ensurepip`, or pip, is missing. On Debian and Ubuntu:\n"
        f"    sudo apt install python3-venv        (or python{major}.{minor}-venv)\n"
        "On other systems install pip for the Python above; then run the same command again."
    )


def _pip_install(python: Path, requirements: Sequence[str]) -> None:
    """Run ``pip install`` with the user's own pip settings; show the line it is at, or its end."""
    command = [str(python), "-m", "pip", "install", "--progress-bar=off", *requirements]
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    tail: deque[str] = deque(maxlen=25)
    try:
        for line in process.stdout:
            tail.append(line)
            show_passing(line.strip())
    finally:
        show_passing("")
        status = process.wait()
    if status:
        print("".join(tail), end="", file=sys.stderr)
        raise SetupError(
            f"pip could not install it (exit status {status}; its last lines are above). Where a "
            "download failed, look at the network and at `python3 -m pip config list`, and run "
            "the same command again: what has been done is kept."
        )


def read_stamp(directory: Path) -> dict[str, list[str] | str]:
    """Return what `ensure_venv` noted of a virtual environment; nothing where it made none."""
    try:
        stamp = json.loads((directory / _STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def digest_of(texts: Iterable[str]) -> str:
    """Return a digest that changes whenever one of the texts does."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()
