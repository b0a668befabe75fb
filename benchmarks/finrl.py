"""One FinRL environment: how much of the rate of the same market in this process is left."""

from __future__ import annotations

from benchmarks import peers
from benchmarks.model import Benchmark, Peer


BENCHMARK = Benchmark(
    name="finrl",
    title="FinRL, three stocks with eight indicators, one environment",
    ours=peers.hosted_or_local(
        "openenv-gym, a process",
        "openenv/FinRL-v0",
        modules=("openenv_gym",),
        provider="process",
        steps=5_000,
    ),
    peers=(
        Peer(
            peers.hosted_or_local(
                "FinRL in process",
                "benchmarks/Local-v0",
                modules=("benchmarks.local",),
                package="finrl_env",
                steps=10_000,
            )
        ),
    ),
)
