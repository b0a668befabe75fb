"""What a container costs in a step that does next to nothing."""

from __future__ import annotations

from benchmarks import peers
from benchmarks.harness import Benchmark, Limit, Peer


BENCHMARK = Benchmark(
    name="container-echo",
    title="a step of Echo in a hardened container",
    ours=peers.hosted_or_local(
        "openenv-gym, a container",
        "openenv/Echo-v0",
        modules=("openenv_gym",),
        provider="docker",
        steps=5_000,
    ),
    peers=(
        Peer(
            peers.hosted_or_local(
                "openenv-gym, a process",
                "openenv/Echo-v0",
                modules=("openenv_gym",),
                provider="process",
                steps=5_000,
            ),
            Limit(rate_at_least=0.95),
        ),
    ),
)
