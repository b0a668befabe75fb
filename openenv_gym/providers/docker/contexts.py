"""What images are built from: a Dockerfile and the files beside it.

The library's own context is put together from the package that runs here, so that a checkout and
an installed wheel give the same one. An environment's context is its package's own folder, in
which `pyproject.toml` and ``server/Dockerfile`` lie, in a checkout and installed alike.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import io
import json
import os
import re
import stat
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO

from openenv_gym import errors
from openenv_gym._version import __version__


__all__ = [
    "DISTRIBUTION",
    "Context",
    "context_of",
    "environment_packages",
    "folder_context",
    "folder_files",
    "image_stem",
    "is_checkout",
    "library_context",
]

DISTRIBUTION = "openenv-gym"

_PACKAGE = Path(__file__).resolve().parents[2]
_SERVERS = _PACKAGE / "servers"
_DOCKERFILE = "server/Dockerfile"
_ENTRY_POINT_GROUP = "openenv_gym.environments"

_IGNORED = ("**/__pycache__", "**/*.egg-info", ".git", ".venv", "build", "dist")
"""What no context holds where the author has written no `.dockerignore`."""

_MTIME = 1_000_000_000  # one for all, so that no clock gets into an image; zip needs 1980 or later

_digests: dict[str, tuple[tuple[object, ...], str]] = {}


@dataclass(frozen=True)
class Context:
    """Files of a build.

    Attributes:
        name: Says whose they are.
        dockerfile: Path of the Dockerfile among them.
        files: Path inside the context to a file here, or to a content.
    """

    name: str
    dockerfile: str
    files: Mapping[str, Path | bytes]

    def digest(self) -> str:
        """Return a digest of all names and contents; read again only what has changed."""
        signature = tuple(_signature(name, source) for name, source in sorted(self.files.items()))
        known = _digests.get(self.name)
        if known is None or known[0] != signature:
            known = _digests[self.name] = signature, self._digest()
        return known[1]

    def _digest(self) -> str:
        digest = hashlib.sha256()
        for name, source in sorted(self.files.items()):
            content = _content(source)
            digest.update(f"{name}\0{_mode(source):o}\0{len(content)}\0".encode())
            digest.update(content)
        return digest.hexdigest()[:32]

    @contextmanager
    def archive(self) -> Iterator[IO[bytes]]:
        """Hold the context in the form that the daemon takes: an open tar file."""
        with tempfile.TemporaryFile() as file:
            with tarfile.open(fileobj=file, mode="w") as archive:
                for name, source in sorted(self.files.items()):
                    content = _content(source)
                    member = tarfile.TarInfo(name)
                    member.size, member.mode, member.mtime = len(content), _mode(source), _MTIME
                    archive.addfile(member, io.BytesIO(content))
            file.seek(0)
            yield file


def image_stem(package: str) -> str:
    """Return what the name of a package contributes to that of its image."""
    stem = package.removesuffix("_env").lower()
    return re.sub(r"[^a-z0-9]+", "-", stem).strip("-") or "environment"


def is_checkout() -> bool:
    """Tell whether the library runs from its sources, so that it may be edited at any time."""
    return (_PACKAGE.parent / "pyproject.toml").is_file()


def environment_packages() -> list[str]:
    """Return the import names of the installed environment packages."""
    points = importlib.metadata.entry_points(group=_ENTRY_POINT_GROUP)
    return sorted({point.module for point in points})


def library_context() -> Context:
    """Return the context of the base image: this library as it runs here.

    Raises:
        ImageBuildError: The library is not installed, so that nothing says what it depends on.
    """
    files: dict[str, Path | bytes] = dict(_library_metadata())
    for name in ("Dockerfile", "openenv-install"):
        files[f"servers/base/{name}"] = _SERVERS / "base" / name
    for directory, directories, names in os.walk(_PACKAGE):
        # Below `servers` are contexts, not code. Sources of bytecode come along, it does not.
        directories[:] = [name for name in directories if name not in ("__pycache__", "servers")]
        place = Path("openenv_gym", Path(directory).relative_to(_PACKAGE))
        found = {f"{place.as_posix()}/{name}": Path(directory, name) for name in names}
        # A link that leads nowhere is an editor's: it stands beside a file that is being edited.
        files.update({name: path for name, path in found.items() if path.is_file()})
    return Context(DISTRIBUTION, "servers/base/Dockerfile", files)


def context_of(package: str) -> Context:
    """Return the context of an environment's image.

    Args:
        package: Import name of the environment package, or ``gymnasium``.

    Raises:
        ImageNotFoundError: There is no such package here, or it cannot be put into an image.
    """
    if package == "gymnasium":
        folder, dockerfile = _SERVERS / "gymnasium", "Dockerfile"
    else:
        folder, dockerfile = _package_folder(package), _DOCKERFILE
    return _context(package, folder, dockerfile)


def folder_context(package: str, folder: Path) -> Context:
    """Return the context of an environment's image whose package need not be installed.

    Args:
        package: Import name of the environment package.
        folder: Its folder.

    Raises:
        ImageNotFoundError: It cannot be put into an image.
    """
    return _context(package, folder, _DOCKERFILE)


def _context(package: str, folder: Path, dockerfile: str) -> Context:
    missing = [
        name
        for name in {dockerfile, dockerfile.replace(_DOCKERFILE, "pyproject.toml")}
        if not (folder / name).is_file()
    ]
    if missing:
        raise errors.ImageNotFoundError(
            f"The package {package!r} in {folder} lacks {' and '.join(sorted(missing))}, so that "
            "no image can be built of it.",
            hint="Add what is missing, and name it as package data; envs/echo_env of openenv-gym "
            "is an example.",
            data={"package": package},
        )
    return Context(package, dockerfile, folder_files(folder, dockerfile))


def _package_folder(package: str) -> Path:
    top, *rest = package.split(".")
    try:
        # Of the top-level package only: to find a submodule, its parent is imported.
        spec = importlib.util.find_spec(top) if top else None
    except (ImportError, ValueError):
        spec = None
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (folder := Path(place, *rest)).is_dir():
            return folder
    raise errors.ImageNotFoundError(
        f"No environment package {package!r} is installed here.",
        hint=f"Install its distribution (pip install openenv-gym-{image_stem(package)}), or load "
        "its image into Docker (docker load).",
        data={"package": package},
    )


def folder_files(folder: Path, dockerfile: str | None = None) -> dict[str, Path | bytes]:
    """Return what a build is sent of a folder: all but what its `.dockerignore` names.

    Args:
        folder: The folder.
        dockerfile: A file that is sent in any case.
    """
    from docker.utils.build import exclude_paths

    try:
        lines = (folder / ".dockerignore").read_text(encoding="utf-8").splitlines()
        patterns = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    except FileNotFoundError:
        patterns = list(_IGNORED)
    # docker-py appends to the list.
    names: Iterable[str] = exclude_paths(str(folder), patterns, dockerfile=dockerfile)
    return {name: folder / name for name in names if (folder / name).is_file()}


@lru_cache(maxsize=1)
def _library_metadata() -> Mapping[str, bytes]:
    try:
        distribution = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError as error:
        raise errors.ImageBuildError(
            "openenv-gym is imported from a folder without being installed, so that nothing says "
            "what it depends on.",
            hint="Install it (pip install -e . in a checkout) and try again.",
        ) from error
    needed = sorted(line for line in distribution.requires or () if "extra ==" not in line)
    python = distribution.metadata["Requires-Python"] or ">=3.10"
    licence = distribution.read_text("licenses/LICENSE")
    if licence is None and (_PACKAGE.parent / "LICENSE").is_file():
        licence = (_PACKAGE.parent / "LICENSE").read_text(encoding="utf-8")
    # JSON's strings and lists are TOML's too.
    project = f"""\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = {json.dumps(DISTRIBUTION)}
version = {json.dumps(__version__)}
license = "MIT"
license-files = ["LICENSE"]
requires-python = {json.dumps(python)}
dependencies = {json.dumps(needed)}

[tool.setuptools.packages.find]
include = ["openenv_gym", "openenv_gym.*"]

[tool.setuptools.package-data]
openenv_gym = ["py.typed", "**/*.json", "**/*.yaml"]
"""
    return {"pyproject.toml": project.encode(), "LICENSE": (licence or "MIT\n").encode()}


def _content(source: Path | bytes) -> bytes:
    return source if isinstance(source, bytes) else source.read_bytes()


def _mode(source: Path | bytes) -> int:
    """Return one of two modes: what else a file here may be allowed depends on the umask."""
    executable = not isinstance(source, bytes) and source.stat().st_mode & stat.S_IXUSR
    return 0o755 if executable else 0o644


def _signature(name: str, source: Path | bytes) -> tuple[object, ...]:
    if isinstance(source, bytes):
        return name, source
    facts = source.stat()
    return name, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_mode
