"""Measurements that the README quotes: ``python -m benchmarks NAME``.

One module for each benchmark, named in `BENCHMARKS`; `harness` measures and reports, `drivers`
are the processes that are measured.
"""

from __future__ import annotations


__all__ = ["BENCHMARKS"]

# Name on the command line -> module that holds its `BENCHMARK`.
BENCHMARKS = {
    "roundtrip": "benchmarks.roundtrip",
    "atari": "benchmarks.atari",
    "container-echo": "benchmarks.container_echo",
    "container-atari": "benchmarks.container_atari",
    "start-echo": "benchmarks.start_echo",
    "start-atari": "benchmarks.start_atari",
}
