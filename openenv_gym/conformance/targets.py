"""What ``serve`` and ``validate`` are told to look at: a folder, or the name of a package."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import NamedTuple

from openenv_gym.errors import UnknownEnvironmentError


__all__ = ["Target", "find_target"]


class Target(NamedTuple):
    """An environment that a server can serve.

    Attributes:
        name: What the server is told: ``gymnasium``, a package, or ``module:attribute``.
        folder: Where its code is; None for ``gymnasium``, or where that is unknown.
    """

    name: str
    folder: Path | None


def find_target(text: str) -> Target:
    """Find what is meant, and put it where Python finds it.

    Args:
        text: Path of an environment package's folder, or a name as ``python -m openenv_gym.server``
            takes it.

    Raises:
        UnknownEnvironmentError: It is a path, and not that of an environment package.
    """
    if text == "gymnasium":
        return Target(text, None)
    path = Path(text).expanduser()
    is_path = not text or text in (".", "..") or os.sep in text
    if path.is_dir() and (is_path or not text.isidentifier() or (path / "openenv.yaml").exists()):
        return _of_folder(path.resolve())
    if is_path or path.is_file():
        what = "is a file" if path.exists() else "is not there"
        raise UnknownEnvironmentError(
            f"{text!r:.200} {what}. Expected the folder of an environment package, or the name of "
            "an installed one."
        )
    sys.path.insert(0, os.getcwd())
    top = text.partition(":")[0].partition(".")[0]
    spec = importlib.util.find_spec(top) if top.isidentifier() else None
    if spec is None or spec.origin is None:
        return Target(text, None)  # the server says what is wrong with it
    origin = Path(spec.origin)
    return Target(text, origin.parent if spec.submodule_search_locations else origin)


def _of_folder(folder: Path) -> Target:
    for needed in ("openenv.yaml", "__init__.py"):
        if not (folder / needed).is_file():
            raise UnknownEnvironmentError(
                f"{folder} is no environment package: it has no {needed}. Expected a folder as "
                "docs/environments.md shows it, or the name of an installed package."
            )
    if not folder.name.isidentifier():
        raise UnknownEnvironmentError(
            f"{folder.name!r} cannot be imported: the folder is the package, so its name must be a "
            f"name in Python, such as {folder.name.replace('-', '_')!r}. Rename it."
        )
    sys.path.insert(0, str(folder.parent))
    return Target(folder.name, folder)
