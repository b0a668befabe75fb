"""Contenders that more than one benchmark measures."""

from __future__ import annotations

import functools

from benchmarks.harness import ROOT, BenchmarkError, Contender, progress
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
]

OPENENV = "0.10"
ENVPOOL = "1.2.5"


def hosted_or_local(
    name: str, env_id: str, /, *, steps: int, modules: tuple[str, ...] = (), **kwargs: object
) -> Contender:
    """Return an environment of `gymnasium.make`; `modules` register what it needs."""
    options = {"id": env_id, "kwargs": kwargs, "modules": list(modules)}
    return Contender(name, "gymnasium_env", options, steps)


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


def async_vector(
    env_id: str,
    /,
    *,
    num_envs: int,
    steps: int,
    modules: tuple[str, ...] = (),
    preprocess: bool = False,
    **kwargs: object,
) -> Contender:
    """Return Gymnasium's own `AsyncVectorEnv`; with Atari's usual wrappers where asked for."""
    options = {
        "kind": "async",
        "id": env_id,
        "num_envs": num_envs,
        "preprocess": preprocess,
        "kwargs": kwargs,
        "modules": list(modules),
    }
    return Contender(f"AsyncVectorEnv, {num_envs}", "vector_env", options, steps)


def ale_vector(game: str, *, num_envs: int, steps: int) -> Contender:
    """Return ale-py's own vectorised engine in the measuring process."""
    options = {"kind": "ale", "game": game, "num_envs": num_envs, "modules": []}
    return Contender("AtariVectorEnv in process", "vector_env", options, steps)


def envpool(game: str, *, num_envs: int, steps: int) -> Contender:
    """Return EnvPool."""
    options = {"game": game, "num_envs": num_envs}
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
