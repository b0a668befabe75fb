"""Contenders that more than one benchmark measures."""

from __future__ import annotations

import functools

from benchmarks.harness import ROOT, BenchmarkError, Contender, progress
from tools.venvs import SetupError, ensure_venv


__all__ = ["bare_container", "bare_echo", "first_observation", "hosted_or_local", "openenv"]

OPENENV = "0.10"


def hosted_or_local(
    name: str, env_id: str, /, *, steps: int, modules: tuple[str, ...] = (), **kwargs: object
) -> Contender:
    """Return an environment of `gymnasium.make`; `modules` register what it needs."""
    options = {"id": env_id, "kwargs": kwargs, "modules": list(modules)}
    return Contender(name, "gymnasium_env", options, steps)


def bare_echo(*, steps: int) -> Contender:
    """Return the round trip of 64 bytes: `websockets`, its server on uvloop, a Unix socket."""
    return Contender("bare WebSocket echo", "echo", {}, steps)


def first_observation(name: str, env_id: str, /, *, steps: int, **kwargs: object) -> Contender:
    """Return how long it takes from `gymnasium.make` to the first observation, in a new process."""
    return Contender(name, "first_observation", {"id": env_id, "kwargs": kwargs}, steps)


def bare_container(*, steps: int) -> Contender:
    """Return ``docker run --rm`` of the image that environments are built on, doing nothing."""
    return Contender("docker run, bare", "bare_container", {}, steps)


def openenv(kind: str, *, steps: int) -> Contender:
    """Return `openenv`'s own server and client; `kind` is one of `openenv_models.KINDS`."""
    return Contender(f"openenv {OPENENV}", "openenv", {"kind": kind}, steps, _openenv_python)


@functools.cache
def _openenv_python() -> str:
    """Make a virtual environment for `openenv`, whose requirements are not ours."""
    directory = ROOT / ".venvs" / f"openenv-{OPENENV}"
    progress(f"looking after {directory.relative_to(ROOT)}, which holds openenv {OPENENV}")
    try:
        return ensure_venv(directory, [f"openenv=={OPENENV}.*"], what=f"openenv {OPENENV}")
    except SetupError as error:
        raise BenchmarkError(str(error)) from error
