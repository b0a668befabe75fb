"""What a step of many costs when the environments cost nothing, and observations are Atari's."""

from __future__ import annotations

from benchmarks import peers
from benchmarks.model import Benchmark, Limit, Peer


__all__ = ["BENCHMARK"]

NUM_ENVS = 8

BENCHMARK = Benchmark(
    name="vector-trivial",
    title="8 environments that do nothing, 84x84x4 each, a step of all",
    num_envs=NUM_ENVS,
    ours=peers.made_vector(
        "openenv-gym, containers",
        "benchmarks/TrivialScreen-v0",
        num_envs=NUM_ENVS,
        steps=5_000,
        modules=("benchmarks.screens",),
        provider="docker",
    ),
    peers=(
        Peer(
            peers.openenv_vector("frames", num_envs=NUM_ENVS, steps=50),
            Limit(rate_at_least=120.0),
        ),
    ),
)
