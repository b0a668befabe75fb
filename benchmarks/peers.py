"""Contenders that more than one benchmark measures."""

from __future__ import annotations

import functools
from typing import Any

from benchmarks.harness import ROOT, BenchmarkError, progress
from benchmarks.model import Contender
from tools.venvs import SetupError, ensure_venv


__all__ = [
    "ale_vector",
    "async_vector",
    "bare_container",
    "bare_echo",
    "envpool",
    "first_observation",
    "hosted_or_local",
    "made_vector",
    "openenv",
    "openenv_vector",
    "programs",
    "session_memory",
    "sessions",
    "sync_vector",
]

OPENENV = "0.10"
ENVPOOL = "1.2.5"


def hosted_or_local(
    name: str, env_id: str, /, *, steps: int, modules: tuple[str, ...] = (), **kwargs: object
) -> Contender:
    """Return an environment of `gymnasium.make`; `modules` register what it needs."""
    options = {"id": env_id, "kwargs": kwargs, "modules": list(modules)}
    return Contender(name, "gymnasium_env", options, steps)


def programs(name: str, *, hosted: bool, steps: int) -> Contender:
    """Return steps with a short program, on a server or by the interpreter alone."""
    return Contender(name, "coding", {"hosted": hosted}, steps)


def bare_echo(*, steps: int) -> Contender:
    """Return the round trip of 64 bytes: `websockets`, its server on uvloop, a Unix socket."""
    return Contender("bare WebSocket echo", "echo", {}, steps)


def made_vector(
    name: str,
    env_id: str,
    /,
    *,
    num_envs: int,
    steps: int,
    modules: tuple[str, ...] = (),
    **kwargs: object,
) -> Contender:
    """Return a vector environment of `gymnasium.make_vec`."""
    options = {
        "kind": "make_vec",
        "id": env_id,
        "num_envs": num_envs,
        "kwargs": kwargs,
        "modules": list(modules),
    }
    return Contender(name, "vector_env", options, steps)


def async_vector(env_id: str, /, *, num_envs: int, steps: int, **options: Any) -> Contender:
    """Return Gymnasium's own `AsyncVectorEnv`; see `_of_one`."""
    return _of_one("async", "AsyncVectorEnv", env_id, num_envs, steps, **options)


def sync_vector(env_id: str, /, *, num_envs: int, steps: int, **options: Any) -> Contender:
    """Return Gymnasium's own `SyncVectorEnv`; see `_of_one`."""
    return _of_one("sync", "SyncVectorEnv", env_id, num_envs, steps, **options)


def _of_one(
    kind: str,
    name: str,
    env_id: str,
    num_envs: int,
    steps: int,
    *,
    modules: tuple[str, ...] = (),
    preprocess: bool = False,
    **kwargs: object,
) -> Contender:
    """Return a vector of what `gymnasium.make` makes; with Atari's usual wrappers on request."""
    options = {
        "kind": kind,
        "id": env_id,
        "num_envs": num_envs,
        "preprocess": preprocess,
        "kwargs": kwargs,
        "modules": list(modules),
    }
    return Contender(f"{name}, {num_envs}", "vector_env", options, steps)


def ale_vector(game: str, *, num_envs: int, steps: int) -> Contender:
    """Return ale-py's own vectorised engine in the measuring process."""
    options = {"kind": "ale", "game": game, "num_envs": num_envs, "modules": []}
    return Contender("AtariVectorEnv in process", "vector_env", options, steps)


def envpool(env_id: str, *, num_envs: int, steps: int) -> Contender:
    """Return EnvPool; ids are its own: ``Pong-v5``."""
    options = {"id": env_id, "num_envs": num_envs}
    return Contender(f"EnvPool {ENVPOOL}", "envpool", options, steps, _envpool_python)


def first_observation(name: str, env_id: str, /, *, steps: int, **kwargs: object) -> Contender:
    """Return how long it takes from `gymnasium.make` to the first observation, in a new process."""
    return Contender(name, "first_observation", {"id": env_id, "kwargs": kwargs}, steps)


def bare_container(*, steps: int) -> Contender:
    """Return ``docker run --rm`` of the image that environments are built on, doing nothing."""
    return Contender("docker run, bare", "bare_container", {}, steps)


def openenv(kind: str, *, steps: int) -> Contender:
    """Return `openenv`'s own server and client; `kind` is one of `openenv_models.KINDS`."""
    return Contender(f"openenv {OPENENV}", "openenv", {"kind": kind}, steps, _openenv_python)


def openenv_vector(kind: str, *, num_envs: int, steps: int) -> Contender:
    """Return sessions of `openenv`'s server, moved at once by its own asynchronous client."""
    options = {"kind": kind, "num_envs": num_envs}
    return Contender(f"openenv {OPENENV}", "openenv_vector", options, steps, _openenv_python)


def sessions(wire: str, *, sessions: int, steps: int) -> Contender:
    """Return a server under the load of many sessions; `wire` is one of `wires.WIRES`."""
    return _crowd(wire, "sessions", {"sessions": sessions}, steps)


def session_memory(wire: str, *, sessions: int) -> Contender:
    """Return what a server's memory grows by with so many idle sessions."""
    return _crowd(wire, "session_memory", {"sessions": sessions}, sessions)


def _crowd(wire: str, driver: str, options: dict[str, Any], steps: int) -> Contender:
    """Return a load generator, which runs in the virtual environment of the server that it loads.

    Both have the same Python, and what generates the load is the same code.
    """
    options = {"wire": wire, **options}
    if wire == "openenv":
        return Contender(f"openenv {OPENENV}", driver, options, steps, _openenv_python)
    return Contender("openenv-gym, a process", driver, options, steps)


@functools.cache
def _openenv_python() -> str:
    return _python_with("openenv", OPENENV, f"openenv=={OPENENV}.*")


@functools.cache
def _envpool_python() -> str:
    return _python_with("envpool", ENVPOOL, f"envpool=={ENVPOOL}")


def _python_with(name: str, version: str, *requirements: str) -> str:
    """Make a virtual environment for a peer whose requirements are not ours."""
    directory = ROOT / ".venvs" / f"{name}-{version}"
    progress(f"looking after {directory.relative_to(ROOT)}, which holds {name} {version}")
    try:
        return ensure_venv(directory, list(requirements), what=f"{name} {version}")
    except SetupError as error:
        raise BenchmarkError(str(error)) from error
