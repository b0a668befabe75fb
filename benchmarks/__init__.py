"""Measurements that the README quotes: ``python -m benchmarks NAME``.

Each is named in `BENCHMARKS`; `harness` measures and reports, `drivers`
are the processes that are measured.
"""

from __future__ import annotations


__all__ = ["BENCHMARKS"]

# Name on the command line -> where its `Benchmark` is.
BENCHMARKS = {
    "roundtrip": "benchmarks.roundtrip:BENCHMARK",
    "atari": "benchmarks.atari:BENCHMARK",
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
    "sessions-2048": "benchmarks.sessions:RATE",
    "memory-session": "benchmarks.sessions:MEMORY",
}
