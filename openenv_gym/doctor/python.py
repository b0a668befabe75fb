"""Checks of Python, of this library's own packages, and of its extras."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import sys
from collections.abc import Iterator

from openenv_gym._version import __version__
from openenv_gym.doctor.checks import Check, State


__all__ = ["check_python"]

_AREA = "python"
_LEAST = (3, 10)
_EXTRAS = {
    # extra: what it is for
    "cli": "the command openenv-gym",
    "daytona": 'provider="daytona"',
    "docker": 'provider="docker"',
    "hub": "openenv-gym push to a Space",
    "human": 'render_mode="human"',
    "judge": "rewards by a language model",
    "kubernetes": 'provider="kubernetes"',
    "minari": "datasets of Minari's",
    "pettingzoo": "several agents",
    "ray": "rollouts from many machines",
    "record": "smaller recordings",
    "trl": "trainers of language models",
    "video": "recording videos",
    "web": "the page at /web",
}


def check_python() -> Iterator[Check]:
    """Look at the interpreter and at what is installed in it."""
    version = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= _LEAST
    yield Check(
        _AREA,
        "Python",
        State.OK if good else State.FAILED,
        f"{version} at {sys.executable}",
        "" if good else "Use Python 3.10 or newer.",
    )
    requirements = importlib.metadata.requires("openenv-gym") or []
    yield Check(_AREA, "openenv-gym", State.OK, __version__)
    for requirement in requirements:
        if "extra ==" not in requirement:
            yield _package(_name(requirement), f'pip install "{requirement}"')
    for extra, purpose in _EXTRAS.items():
        needed = [name for each in _of_extra(requirements, extra) for name in _names(each)]
        if needed:
            yield _extra(extra, purpose, needed)
    uv = shutil.which("uv")
    yield Check(
        _AREA,
        "uv",
        State.OK if uv else State.ABSENT,
        uv or 'not here; provider="uv" needs it',
        "" if uv else "pip install uv",
    )


def _name(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    return match.group() if match else requirement


def _of_extra(requirements: list[str], extra: str) -> list[str]:
    return [each for each in requirements if f'extra == "{extra}"' in each]


def _names(requirement: str) -> list[str]:
    """Return what a requirement has installed: a distribution, and what its own extras bring."""
    name = _name(requirement)
    extras = re.match(r"[A-Za-z0-9._-]+\[([^\]]+)\]", requirement)
    if extras is None or _version(name) is None:
        return [name]
    theirs = importlib.metadata.requires(name) or []
    brought = [each for extra in extras[1].split(",") for each in _of_extra(theirs, extra.strip())]
    return [name, *map(_name, brought)]


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _package(name: str, fix: str) -> Check:
    version = _version(name)
    if version is None:
        return Check(_AREA, name, State.FAILED, "not installed", fix)
    return Check(_AREA, name, State.OK, version)


def _extra(extra: str, purpose: str, needed: list[str]) -> Check:
    versions = {name: _version(name) for name in needed}
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        found = f"{', '.join(missing)} not installed, for {purpose}"
        fix = f'pip install "openenv-gym[{extra}]"'
        return Check(_AREA, f"extra {extra}", State.ABSENT, found, fix)
    text = ", ".join(f"{name} {version}" for name, version in versions.items())
    return Check(_AREA, f"extra {extra}", State.OK, text)
