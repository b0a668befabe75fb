"""The folder of an environment package, as the commands of its author name it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from openenv_gym.errors import InvalidOptionError


if TYPE_CHECKING:
    from openenv_gym.models.manifest import Manifest

__all__ = ["read_folder", "read_pairs"]


def read_folder(folder: Path) -> Manifest:
    """Return the manifest of an environment package.

    Raises:
        ManifestError: It does not hold.
        InvalidOptionError: There is no package in this folder.
    """
    from openenv_gym.models.manifest import load_manifest

    if not (folder / "openenv.yaml").is_file():
        raise InvalidOptionError(
            f"{folder} is no environment package: there is no openenv.yaml in it.",
            field="path",
            hint="Name the folder that holds one, or begin one: openenv-gym init NAME.",
        )
    manifest = load_manifest(folder / "openenv.yaml")
    if not manifest.name.isidentifier():
        raise InvalidOptionError(
            f"{folder / 'openenv.yaml'}: `name` is {manifest.name!r}, which nothing can import.",
            field="name",
            hint="Give it the name of the package, such as burrow_env.",
        )
    return manifest


def read_pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    """Return what an option says that may be given several times, as ``NAME=VALUE``.

    Raises:
        InvalidOptionError: One of them is nothing of the kind.
    """
    pairs = {}
    for text in texts:
        match = re.fullmatch(r"([A-Za-z_]\w*)=(.*)", text, re.DOTALL)
        if match is None:
            raise InvalidOptionError(
                f"{option} {text!r:.80}: expected NAME=VALUE.", field=option.lstrip("-")
            )
        pairs[match[1]] = match[2]
    return pairs
