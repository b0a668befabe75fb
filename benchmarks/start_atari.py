"""From `gymnasium.make` to the first observation of Atari, in a hardened container."""

from __future__ import annotations

from benchmarks import peers
from benchmarks.harness import Benchmark, Limit, Peer


BENCHMARK = Benchmark(
    name="start-atari",
    title="from make to the first observation of Atari, image present",
    ours=peers.first_observation(
        "openenv-gym, a container", "openenv/Atari-v0", game="pong", provider="docker", steps=3
    ),
    peers=(Peer(peers.bare_container(steps=3), Limit(more_at_most_s=1.0)),),
)
