"""One Atari environment with RGB frames: how much of the local rate is left."""

from __future__ import annotations

from benchmarks import peers
from benchmarks.model import Benchmark, Limit, Peer


BENCHMARK = Benchmark(
    name="atari",
    title="Pong, 210x160x3 frames, one environment",
    ours=peers.hosted_or_local(
        "openenv-gym, a process",
        "openenv/Atari-v0",
        modules=("openenv_gym",),
        game="pong",
        provider="process",
        steps=2_000,
    ),
    peers=(
        Peer(
            peers.hosted_or_local(
                "ALE in process", "ALE/Pong-v5", modules=("ale_py",), steps=2_000
            ),
            Limit(rate_at_least=0.6),
        ),
        Peer(peers.openenv("screen", steps=60), Limit(rate_at_least=30.0)),
    ),
)
