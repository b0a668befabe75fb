"""Who made an environment, and where there is more about it: what its package says."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
from pathlib import Path
from typing import NamedTuple

from openenv_gym.models.manifest import Manifest


__all__ = ["Publication", "publication_of"]

_README_PATH = "ENV_README_PATH"  # OpenEnv's variable
_MAX_README_BYTES = 1 << 20


class Publication(NamedTuple):
    """Facts for ``GET /metadata``; None where unknown.

    Attributes:
        author: Who made it.
        readme: A page about it, in Markdown.
        documentation_url: Where there is more.
    """

    author: str | None = None
    readme: str | None = None
    documentation_url: str | None = None


def publication_of(manifest: Manifest, package: Path) -> Publication:
    """Return what a manifest, the README beside it, and the distribution say.

    Args:
        manifest: The manifest; ``author`` and ``documentation_url`` there come first.
        package: Folder of the environment's package.
    """
    stated = manifest.model_extra or {}
    author, url = stated.get("author"), stated.get("documentation_url")
    if manifest.distribution is not None:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found = importlib.metadata.metadata(manifest.distribution).json
            author = author or found.get("author") or found.get("author_email")
            links = dict(_link(line) for line in found.get("project_url", []))
            url = url or links.get("documentation") or links.get("homepage")
    return Publication(
        None if author is None else str(author), _readme(package), None if url is None else str(url)
    )


def _link(line: str) -> tuple[str, str]:
    """Read a link of a distribution, such as ``Homepage, https://example.org``."""
    name, _, link = line.partition(",")
    return name.strip().lower(), link.strip()


def _readme(package: Path) -> str | None:
    path = Path(os.environ.get(_README_PATH) or package / "README.md")
    with contextlib.suppress(OSError, UnicodeDecodeError), path.open("rb") as file:
        return file.read(_MAX_README_BYTES).decode()
    return None
