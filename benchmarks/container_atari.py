"""What a container costs in a step with 100 KB of observation."""

from __future__ import annotations

from benchmarks import peers
from benchmarks.harness import Benchmark, Limit, Peer


BENCHMARK = Benchmark(
    name="container-atari",
    title="a step of Pong, 210x160x3 frames, in a hardened container",
    ours=peers.hosted_or_local(
        "openenv-gym, a container",
        "openenv/Atari-v0",
        modules=("openenv_gym",),
        game="pong",
        provider="docker",
        steps=2_000,
    ),
    peers=(
        Peer(
            peers.hosted_or_local(
                "openenv-gym, a process",
                "openenv/Atari-v0",
                modules=("openenv_gym",),
                game="pong",
                provider="process",
                steps=2_000,
            ),
            Limit(rate_at_least=0.95),
        ),
    ),
)
