"""Measurements that the README and docs/performance.md quote: ``python -m benchmarks NAME``.

Each is named in `BENCHMARKS`, or, for the page's picture, in `SCALING`; `harness` measures,
`reports` and `page` show, `drivers` are the processes that are measured.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from benchmarks.model import Benchmark

__all__ = ["BENCHMARKS", "SCALING", "load"]

# Name on the command line -> where its `Benchmark` is.
BENCHMARKS = {
    "roundtrip": "benchmarks.roundtrip:BENCHMARK",
    "atari": "benchmarks.atari:BENCHMARK",
    "grid-world": "benchmarks.grids:GRID_WORLD",
    "maze": "benchmarks.grids:MAZE",
    "snake": "benchmarks.grids:SNAKE",
    "chess": "benchmarks.chess:RANDOM",
    "chess-stockfish": "benchmarks.chess:STOCKFISH",
    "coding": "benchmarks.coding:BENCHMARK",
    "connect4": "benchmarks.connect4:ONE",
    "connect4-agents": "benchmarks.connect4:TWO",
    "finrl": "benchmarks.finrl:BENCHMARK",
    "openspiel": "benchmarks.openspiel:BENCHMARK",
    "container-echo": "benchmarks.containers:ECHO",
    "container-atari": "benchmarks.containers:ATARI",
    "start-echo": "benchmarks.containers:START_ECHO",
    "start-atari": "benchmarks.containers:START_ATARI",
    "vector-atari-8": "benchmarks.vector_atari:EIGHT",
    "vector-atari-64": "benchmarks.vector_atari:SIXTY_FOUR",
    "vector-atari-raw": "benchmarks.vector_atari:RAW",
    "vector-cartpole": "benchmarks.vector_cartpole:DEFAULT",
    "vector-cartpole-native": "benchmarks.vector_cartpole:NATIVE",
    "vector-trivial": "benchmarks.vector_trivial:BENCHMARK",
    "ppo-cartpole": "benchmarks.training:CARTPOLE",
    "ppo-atari": "benchmarks.training:ATARI",
    "ppo-atari-nature": "benchmarks.training:NATURE",
    "recording-cartpole": "benchmarks.recording:CARTPOLE",
    "recording-atari": "benchmarks.recording:ATARI",
    "ray-rollouts": "benchmarks.ray:BENCHMARK",
    "sessions-2048": "benchmarks.sessions:RATE",
    "memory-session": "benchmarks.sessions:MEMORY",
}

# Name -> where its `Benchmark`s are, one for each number of environments.
SCALING = {
    "scaling-atari": "benchmarks.scaling:ATARI",
    "scaling-cartpole": "benchmarks.scaling:CARTPOLE",
}


def load(name: str) -> tuple[Benchmark, ...]:
    """Return what a name on the command line stands for.

    Raises:
        KeyError: There is no such name.
    """
    module, _, attribute = {**BENCHMARKS, **SCALING}[name].partition(":")
    found = getattr(importlib.import_module(module), attribute)
    return found if isinstance(found, tuple) else (found,)
