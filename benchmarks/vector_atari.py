"""Preprocessed Atari in containers, against engines in the measuring process and against processes.

ale-py's engine in process is the physical limit: it does the same work without any way there and
back.
"""

from __future__ import annotations

from benchmarks import peers
from benchmarks.model import Benchmark, Contender, Limit, Peer


__all__ = ["EIGHT", "RAW", "SIXTY_FOUR"]


def _ours(num_envs: int, steps: int) -> Contender:
    return peers.made_vector(
        "openenv-gym, containers",
        "openenv/Atari-v0",
        num_envs=num_envs,
        steps=steps,
        modules=("openenv_gym",),
        game="pong",
        preprocess=True,
        provider="docker",
    )


EIGHT = Benchmark(
    name="vector-atari-8",
    title="Pong, 8 times 4x84x84, a step of all",
    num_envs=8,
    ours=_ours(8, 800),
    peers=(
        Peer(peers.ale_vector("pong", num_envs=8, steps=800), Limit(rate_at_least=0.9)),
        Peer(
            peers.async_vector(
                "ALE/Pong-v5",
                num_envs=8,
                steps=400,
                modules=("ale_py",),
                preprocess=True,
                frameskip=1,
            ),
            Limit(rate_at_least=1.7),
        ),
        Peer(peers.envpool("Pong-v5", num_envs=8, steps=800), Limit(rate_at_least=1.0)),
    ),
)

SIXTY_FOUR = Benchmark(
    name="vector-atari-64",
    title="Pong, 64 times 4x84x84, a step of all",
    num_envs=64,
    ours=_ours(64, 120),
    peers=(
        Peer(peers.ale_vector("pong", num_envs=64, steps=120), Limit(rate_at_least=0.88)),
        Peer(peers.envpool("Pong-v5", num_envs=64, steps=120), Limit(rate_at_least=1.0)),
    ),
)

RAW = Benchmark(
    name="vector-atari-raw",
    title="Pong, 8 times 210x160x3, a step of all",
    num_envs=8,
    ours=peers.made_vector(
        "openenv-gym, containers",
        "openenv/Atari-v0",
        num_envs=8,
        steps=400,
        modules=("openenv_gym",),
        game="pong",
        provider="docker",
    ),
    peers=(
        Peer(
            peers.async_vector("ALE/Pong-v5", num_envs=8, steps=400, modules=("ale_py",)),
            Limit(rate_at_least=1.2),
        ),
    ),
)
