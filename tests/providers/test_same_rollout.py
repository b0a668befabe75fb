"""The same script on every provider: nothing but ``provider=`` differs, and the hash is the same.

`python3 dev.py providers` runs it on all that are here, Swarm and Kubernetes included.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.providers.uv.venvs import find_uv
from tests.support.engines import docker_client, missing
from tests.support.images import image
from tests.testbed.swarm import swarm, why_not


SCRIPT = Path(__file__).parents[2] / "examples" / "rollout.py"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "provider",
    [
        "thread",
        "process",
        # It installs all that Gymnasium's environments need.
        pytest.param("uv", marks=[pytest.mark.uv, pytest.mark.long]),
        pytest.param("docker", marks=pytest.mark.container),
        pytest.param("swarm", marks=pytest.mark.swarm),
        pytest.param("kubernetes", marks=pytest.mark.kubernetes),
    ],
)
def test_the_same_rollout(provider: str, capsys: Any) -> None:
    with PLACES.get(provider, contextlib.nullcontext)() as variables:
        found = play(provider, **(variables or {}))
    with capsys.disabled():
        print(f"\n{provider:12}{found}")
    assert found == expected()


@functools.cache
def expected() -> str:
    return play("thread")


def play(provider: str, **variables: str) -> str:
    """Run the script, and return the hash that it prints."""
    done = subprocess.run(
        [sys.executable, SCRIPT, "--provider", provider],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    name, digest = done.stdout.split()
    assert name == provider and len(digest) == 64
    return digest


# -- what a provider needs, and the variables by which it finds it --------------------------------


@contextlib.contextmanager
def _uv() -> Iterator[dict[str, str]]:
    try:
        find_uv()
    except errors.ProviderUnavailableError as error:
        pytest.skip(str(error))
    yield {}


@contextlib.contextmanager
def _docker() -> Iterator[dict[str, str]]:
    image("gymnasium")
    yield {}


@contextlib.contextmanager
def _swarm() -> Iterator[dict[str, str]]:
    if problem := why_not():
        missing("docker", problem)
    name = image("gymnasium")
    with contextlib.closing(docker_client()) as source, swarm(2) as made:
        made.load(source, name)
        yield {"DOCKER_HOST": made.host}
        assert made.manager.services.list() == made.manager.secrets.list() == []


@contextlib.contextmanager
def _kubernetes() -> Iterator[dict[str, str]]:
    if not os.environ.get("KUBECONFIG"):
        missing("kubernetes", "no cluster: python3 dev.py providers --binaries DIR brings one up")
    yield {}


PLACES = {"uv": _uv, "docker": _docker, "swarm": _swarm, "kubernetes": _kubernetes}
