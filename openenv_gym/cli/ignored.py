"""Which files git ignores, also where git itself has no answer for the folder."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from openenv_gym.errors import ConfigurationError


__all__ = ["ignored"]

_TIMEOUT_S = 30.0
_TELLS = "openenv.yaml"
"""The file of which git says whether a whole package is ignored: no package goes without it."""
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
"""What tells git of another repository than that around a folder; hooks are run with them."""


class _Unanswered(Exception):
    """Git cannot tell; the text says why."""


def ignored(folder: Path, names: Sequence[str]) -> list[str]:
    """Return which of some files git ignores.

    Git is asked for the repository around the folder. Where that is none, or one that git does not
    trust, the ``.gitignore`` files hold all the same. Likewise where a repository around it
    ignores the whole folder, which says nothing of single files.

    Args:
        folder: Where the files are.
        names: Their paths in it.

    Raises:
        ConfigurationError: There is a ``.gitignore``, and no git that reads it.
    """
    try:
        try:
            found = _ask(folder, names, [])
        except _Unanswered:
            found = _ask_apart(folder, names, _top(folder))
        return _ask_apart(folder, names, folder) if _TELLS in found else found
    except _Unanswered as error:
        if not _has_rules(folder, names):
            return []
        raise ConfigurationError(
            f"There is a .gitignore for {folder}, and git does not say what it ignores: {error}. "
            "Nothing was uploaded.",
            field="path",
            hint="Install git, or take the .gitignore away and name what stays with --exclude.",
        ) from error


def _top(folder: Path) -> Path:
    """Return the top of the repository around a folder, or the folder where there is none."""
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)


def _has_rules(folder: Path, names: Sequence[str]) -> bool:
    top = _top(folder)
    around = [each for each in (folder, *folder.parents) if each.is_relative_to(top)]
    return any((each / ".gitignore").exists() for each in around) or any(
        name.endswith("/.gitignore") for name in names
    )


def _ask_apart(folder: Path, names: Sequence[str], top: Path) -> list[str]:
    """Ask within an empty repository that is thrown away, of which `top` is the work tree.

    So of a repository that somebody else owns nothing is read but what it ignores: its settings
    can name programs, which git would run.
    """
    with tempfile.TemporaryDirectory(prefix="openenv-gym-") as place:
        _run(["init", "--quiet", "--bare", "--template=", place], b"", (0,))
        own = top / ".git" / "info" / "exclude"
        if own.is_file():
            Path(place, "info").mkdir()
            Path(place, "info", "exclude").write_bytes(own.read_bytes())
        return _ask(folder, names, [f"--git-dir={place}", f"--work-tree={top}"])


def _ask(folder: Path, names: Sequence[str], repository: list[str]) -> list[str]:
    command = ["-C", str(folder), *repository, "check-ignore", "--stdin", "-z"]
    # 1: none of them is.
    told = _run(command, b"\0".join(map(os.fsencode, names)), (0, 1))
    return [os.fsdecode(name) for name in told.split(b"\0") if name]


def _run(command: list[str], told: bytes, good: tuple[int, ...]) -> bytes:
    around = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    try:
        done = subprocess.run(
            ["git", *command], input=told, capture_output=True, timeout=_TIMEOUT_S, env=around
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Unanswered(str(error)) from error
    if done.returncode not in good:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise _Unanswered(said[0] if said else f"it ended with code {done.returncode}")
    return done.stdout
