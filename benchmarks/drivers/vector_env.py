"""Drives a vector environment; a step of a round is a step of every sub-environment.

Options: ``kind`` (a name of `MAKERS`), ``modules`` to import before, ``record`` to write all to
a file that is complete when a round ends, and the rest for its maker.
"""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Callable, Generator
from itertools import cycle, islice
from typing import Any

import gymnasium

from benchmarks.drivers.common import SEED, Round, serve


def make_vec(options: dict[str, Any]) -> Any:
    """Make what `gymnasium.make_vec` makes."""
    return gymnasium.make_vec(options["id"], num_envs=options["num_envs"], **options["kwargs"])


def make_async(options: dict[str, Any]) -> Any:
    """Make an `AsyncVectorEnv`: a process for each sub-environment."""
    return gymnasium.vector.AsyncVectorEnv(_creators(options))


def make_sync(options: dict[str, Any]) -> Any:
    """Make a `SyncVectorEnv`: all sub-environments in this process, one after the other."""
    return gymnasium.vector.SyncVectorEnv(_creators(options))


def _creators(options: dict[str, Any]) -> list[Callable[[], Any]]:
    wrap = _preprocessed if options.get("preprocess") else _as_it_is

    def make() -> Any:
        return wrap(gymnasium.make(options["id"], **options["kwargs"]))

    return [make] * options["num_envs"]


def make_ale(options: dict[str, Any]) -> Any:
    """Make ale-py's own vectorised engine, in this process."""
    import ale_py

    return ale_py.AtariVectorEnv(options["game"], num_envs=options["num_envs"])


MAKERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "make_vec": make_vec,
    "async": make_async,
    "sync": make_sync,
    "ale": make_ale,
}


def _as_it_is(env: Any) -> Any:
    return env


def _preprocessed(env: Any) -> Any:
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    return FrameStackObservation(AtariPreprocessing(env), 4)


def _nothing() -> None:
    """Have nothing to complete."""


def start(options: dict[str, Any]) -> Generator[Round, None, None]:
    """Make the environments and yield their rounds."""
    for module in options["modules"]:
        importlib.import_module(module)
    with tempfile.TemporaryDirectory() as folder:
        yield from _run(options, folder)


def _run(options: dict[str, Any], folder: str) -> Generator[Round, None, None]:
    envs = MAKERS[options["kind"]](options)
    flush: Callable[[], None] = _nothing
    if options.get("record"):
        from openenv_gym.recording import RecordRollout

        envs = RecordRollout(envs, f"{folder}/rollout")
        flush = envs.flush
    try:
        envs.action_space.seed(SEED)
        actions = cycle([envs.action_space.sample() for _ in range(64)])
        envs.reset(seed=SEED)

        def take_round(steps: int) -> float:
            step = envs.step
            begin = time.perf_counter()
            for action in islice(actions, steps):
                step(action)
            flush()
            return time.perf_counter() - begin

        yield take_round
    finally:
        envs.close()


if __name__ == "__main__":
    serve(start)
