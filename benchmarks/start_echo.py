"""From `gymnasium.make` to the first observation of Echo, in a hardened container."""

from __future__ import annotations

from benchmarks import peers
from benchmarks.harness import Benchmark, Limit, Peer


BENCHMARK = Benchmark(
    name="start-echo",
    title="from make to the first observation of Echo, image present",
    ours=peers.first_observation(
        "openenv-gym, a container", "openenv/Echo-v0", provider="docker", steps=3
    ),
    peers=(Peer(peers.bare_container(steps=3), Limit(more_at_most_s=0.7)),),
)
