"""Connect Four, for one agent and for two: what of the local rate is left."""

from __future__ import annotations

from benchmarks import peers
from benchmarks.model import Benchmark, Contender, Peer


__all__ = ["ONE", "TWO"]

ONE = Benchmark(
    name="connect4",
    title="Connect Four against a random opponent",
    ours=peers.hosted_or_local(
        "openenv-gym, a process",
        "openenv/ConnectFour-v0",
        modules=("openenv_gym",),
        provider="process",
        steps=3_000,
    ),
    peers=(
        Peer(
            peers.hosted_or_local(
                "the same in process",
                "benchmarks/Local-v0",
                modules=("benchmarks.local",),
                package="connect4_env",
                steps=6_000,
            )
        ),
    ),
)

TWO = Benchmark(
    name="connect4-agents",
    title="Connect Four, two agents in turn",
    ours=Contender(
        "openenv-gym, a process",
        "agents",
        {"target": "openenv/ConnectFour-v0", "kwargs": {"provider": "process"}},
        3_000,
    ),
    peers=(
        Peer(
            Contender(
                "the same in process",
                "agents",
                {"local": "connect4_env.server.two_players:TwoPlayers", "kwargs": {}},
                3_000,
            )
        ),
    ),
)
