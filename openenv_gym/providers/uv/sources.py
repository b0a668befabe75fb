"""What is installed into a virtual environment, and a digest by which it is found again."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from openenv_gym import errors


__all__ = ["Source", "copy_folder", "source_of"]

_GIT = re.compile(
    r"(?P<place>git\+(https?|ssh|git|file)://([^@/\s#]+@)?[^@\s#]+)"
    r"(@(?P<revision>[^@\s#]+))?(?P<fragment>#\S+)?"
)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_GIT_S = 60.0
_IGNORED = frozenset({"__pycache__", ".git", ".venv", "build", "dist", ".pytest_cache"})


@dataclass(frozen=True)
class Source:
    """An environment package, seen from uv.

    Attributes:
        package: Its import name.
        digest: Another one for another content.
        folder: Directory with its ``pyproject.toml``; it is copied, for a build writes there.
        requirements: What else uv is told to install.
    """

    package: str
    digest: str
    folder: Path | None = None
    requirements: tuple[str, ...] = ()


def source_of(package: str, source: str | os.PathLike[str] | None) -> Source:
    """Find what to install.

    Args:
        package: Import name of the environment package, or ``gymnasium``.
        source: A directory, ``git+URL[@REVISION]``, or None: what is installed here.

    Raises:
        UnknownEnvironmentError: There is no source of it.
        InvalidOptionError: ``source`` is neither of the two.
        ServerStartError: git does not find the revision.
    """
    top = package.partition(".")[0].partition(":")[0]
    if source is None and top == "gymnasium":
        version = importlib.metadata.version("gymnasium")
        extras = "classic-control,toy-text,box2d,mujoco"
        return _of_requirements(package, f"gymnasium[{extras}]=={version}")
    if source is None:
        return _of_folder(package, _installed_folder(top))
    text = os.fspath(source)
    if text.startswith("git+"):
        return _of_git(package, text)
    folder = Path(text).expanduser().resolve()
    if not (folder / "pyproject.toml").is_file():
        raise errors.InvalidOptionError(
            f"source is {text!r:.200}: there is no pyproject.toml in {folder}.",
            field="source",
            hint="Expected a directory with one, or git+https://...",
        )
    return _of_folder(package, folder)


def copy_folder(folder: Path, target: Path) -> None:
    """Copy what a distribution is built from: just what the digest is of."""
    for path in _files(folder):
        place = target / path.relative_to(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)


def _of_folder(package: str, folder: Path) -> Source:
    digest = hashlib.sha256()
    for path in _files(folder):
        content = path.read_bytes()
        name = path.relative_to(folder).as_posix()
        digest.update(f"{name}\0{len(content)}\0".encode(errors="surrogateescape"))
        digest.update(content)
    return Source(package, digest.hexdigest(), folder=folder)


def _of_requirements(package: str, *requirements: str) -> Source:
    digest = hashlib.sha256("\0".join(requirements).encode()).hexdigest()
    return Source(package, digest, requirements=requirements)


def _files(folder: Path) -> Iterable[Path]:
    # What a link leads to is installed, too. One that leads nowhere is an editor's, for instance.
    for directory, directories, names in os.walk(folder, followlinks=True):
        directories[:] = sorted(
            name
            for name in directories
            if name not in _IGNORED
            and not name.endswith(".egg-info")
            and not _leads_back(Path(directory), name)
        )
        for name in sorted(names):
            path = Path(directory, name)
            if path.is_file():
                yield path


def _leads_back(directory: Path, name: str) -> bool:
    """Tell whether a directory is a link to what it is in, where nobody would ever get through."""
    path = directory / name
    return path.is_symlink() and directory.resolve().is_relative_to(path.resolve())


def _installed_folder(top: str) -> Path:
    try:
        spec = importlib.util.find_spec(top) if top else None
    except (ImportError, ValueError):
        spec = None
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(place) / "pyproject.toml").is_file():
            return Path(place)
    raise errors.UnknownEnvironmentError(
        f"There is no source of the environment package {top!r} here, to install it from.",
        field="source",
        hint="Name it: UvProvider(source=DIRECTORY), or git+URL; an installed package has one "
        "where its pyproject.toml is among its package data.",
        data={"package": top},
    )


def _of_git(package: str, url: str) -> Source:
    """Pin a revision, so that what is installed is what the digest says."""
    match = _GIT.fullmatch(url)
    if match is None:
        raise errors.InvalidOptionError(
            f"source is {url!r:.200}, expected git+https://HOST/REPOSITORY[@REVISION].",
            field="source",
        )
    place, revision, fragment = match["place"], match["revision"], match["fragment"] or ""
    if revision is None or _COMMIT.fullmatch(revision) is None:
        revision = _commit_of(place.removeprefix("git+"), revision or "HEAD")
    return _of_requirements(package, f"{place}@{revision}{fragment}")


def _commit_of(repository: str, revision: str) -> str:
    try:
        done = subprocess.run(
            ["git", "ls-remote", "--", repository, revision, f"{revision}^{{}}"],
            capture_output=True,
            timeout=_GIT_S,
            text=True,
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
        )
    except FileNotFoundError as error:
        raise errors.ProviderUnavailableError(
            f"A source in {repository} needs git, which is not installed.", field="source"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise errors.ServerStartError(
            f"git did not answer within {_GIT_S:.0f} s about {repository}.", field="source"
        ) from error
    # It tells of `old/main` as well where `main` is asked for.
    told = (line.partition("\t") for line in done.stdout.splitlines())
    commits = {name: commit for commit, _, name in told}
    heads, tags = f"refs/heads/{revision}", f"refs/tags/{revision}"
    names = (revision, heads, f"{tags}^{{}}", tags)
    commit = next((commits[name] for name in names if name in commits), "")
    if done.returncode != 0 or _COMMIT.fullmatch(commit) is None:
        raise errors.ServerStartError(
            f"git finds no {revision} in {repository}.",
            field="source",
            data={"log": done.stderr.strip()[-2000:]},
        )
    return commit
