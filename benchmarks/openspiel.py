"""One game of OpenSpiel: what is left of the rate of the same environment in this process."""

from __future__ import annotations

from benchmarks import peers
from benchmarks.model import Benchmark, Peer


__all__ = ["BENCHMARK"]

BENCHMARK = Benchmark(
    name="openspiel",
    title="tic-tac-toe of OpenSpiel against random moves",
    ours=peers.hosted_or_local(
        "openenv-gym, a process",
        "openenv/OpenSpiel-v0",
        modules=("openenv_gym",),
        game="tic_tac_toe",
        provider="process",
        steps=5_000,
    ),
    peers=(
        Peer(
            peers.hosted_or_local(
                "the same in process",
                "benchmarks/Local-v0",
                modules=("benchmarks.local",),
                package="openspiel_env",
                game="tic_tac_toe",
                steps=5_000,
            )
        ),
    ),
)
