"""Drives the interpreter of the coding environment with a short program.

Options: ``hosted``: through `gymnasium.make` and a server; otherwise without either.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import Any

import gymnasium

import openenv_gym  # noqa: F401  (registers the ids)
from benchmarks.drivers.common import SEED, Round, serve


PROGRAM = "x = 1"


def start(options: dict[str, Any]) -> Generator[Round, None, None]:
    """Make the environment, or the interpreter, and yield its rounds."""
    step: Callable[[str], object]
    with ExitStack() as stack:
        if options["hosted"]:
            env = gymnasium.make(
                "openenv/Coding-v0",
                provider="process",
                allow_unisolated=True,
                allow_unsandboxed=True,
            )
            stack.callback(env.close)
            env.reset(seed=SEED)
            step = env.step
        else:
            ours = importlib.import_module("coding_env.server.interpreter")
            interpreter = ours.Interpreter(ours.Limits())
            stack.callback(interpreter.close)
            interpreter.restart(SEED)
            step = interpreter.run

        def take_round(steps: int) -> float:
            begin = time.perf_counter()
            for _ in range(steps):
                step(PROGRAM)
            return time.perf_counter() - begin

        yield take_round


if __name__ == "__main__":
    serve(start)
