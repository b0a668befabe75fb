"""Vector environments in containers that are recorded, against the same that are not."""

from __future__ import annotations

import dataclasses
from typing import Any

from benchmarks import peers
from benchmarks.model import Benchmark, Limit, Peer


__all__ = ["ATARI", "CARTPOLE"]


def _benchmark(name: str, title: str, env_id: str, **how: Any) -> Benchmark:
    plain = peers.made_vector(
        "the same, not recorded", env_id, modules=("openenv_gym",), provider="docker", **how
    )
    return Benchmark(
        name=name,
        title=title,
        num_envs=how["num_envs"],
        ours=dataclasses.replace(
            plain, name="openenv-gym, recorded", options={**plain.options, "record": True}
        ),
        peers=(Peer(plain, Limit(rate_at_least=0.9)),),
    )


CARTPOLE = _benchmark(
    "recording-cartpole",
    "64 CartPoles, recorded, a step of all",
    "openenv/CartPole-v1",
    num_envs=64,
    steps=1_000,
)

ATARI = _benchmark(
    "recording-atari",
    "Pong, 8 times 4x84x84, recorded, a step of all",
    "openenv/Atari-v0",
    num_envs=8,
    steps=800,
    game="pong",
    preprocess=True,
)
