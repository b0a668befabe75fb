"""Images of this checkout, for tests that start containers."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from openenv_gym.providers.docker.contexts import environment_packages
from openenv_gym.providers.docker.images import (
    BASE_IMAGE_VARIABLE,
    ensure_base,
    ensure_image,
    find_image,
)
from tests.support.engines import docker_client


__all__ = ["ALWAYS_BUILT", "EVERY_PACKAGE", "image", "package_in", "python_image", "run_inside"]

ROOT = Path(__file__).parents[2]

ALWAYS_BUILT = {"atari_env", "coding_env", "echo_env", "gymnasium"}
"""Packages whose images every run of the tests has."""

EVERY_PACKAGE = [
    pytest.param(name, marks=() if name in ALWAYS_BUILT else pytest.mark.images)
    for name in ("gymnasium", *environment_packages())
]
"""Parameters of a test of all images; those that not every run builds have the marker for them."""


@cache
def image(package: str) -> str:
    """Return the name of an image that is built from the source that is here.

    The first test that asks for one may have to wait while it is built; a lock between processes
    sees to it that it is built once. ``python3 dev.py images`` beforehand builds them all.

    Args:
        package: An environment package, ``"gymnasium"``, or ``"base"`` for what all begin with.
    """
    client = docker_client()
    try:
        if package != "base" and find_image(client, package).state == "current":
            return ensure_image(client, package, build="never")
        os.environ.setdefault(BASE_IMAGE_VARIABLE, python_image())
        return ensure_base(client) if package == "base" else ensure_image(client, package)
    finally:
        client.close()


@cache
def python_image() -> str:
    """Return an image with Python: the official one, or a stand-in where no registry answers."""
    done = subprocess.run(
        [sys.executable, "servers/base/offline.py", "--if-needed"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def package_in(directory: Path, dockerfile: str, files: Mapping[str, str]) -> Path:
    """Make an environment package of a name that nobody has, and return its folder.

    Args:
        directory: What gets the package.
        dockerfile: Its Dockerfile.
        files: Its other files: content by path.
    """
    folder = directory / f"test{uuid.uuid4().hex[:12]}_env"
    needed = {"server/Dockerfile": dockerfile, "pyproject.toml": "", "__init__.py": ""}
    for path, text in {**needed, **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(textwrap.dedent(text))
    return folder


def run_inside(docker: Any, name: str, code: str) -> str:
    """Run Python code in a container as confined as a server's, and return what it prints."""
    output: bytes = docker.containers.run(
        name,
        ["python", "-c", textwrap.dedent(code)],
        remove=True,
        network_mode="none",
        read_only=True,
        tmpfs={"/tmp": "size=64m"},
        cap_drop=["ALL"],
        security_opt=["no-new-privileges:true"],
    )
    return output.decode().strip()
