"""One game of OpenSpiel: what is left of the rate of the same environment in this process."""

from __future__ import annotations

from typing import Any

import gymnasium

from benchmarks import peers
from benchmarks.model import Benchmark, Peer


LOCAL = "benchmarks/OpenSpiel-v0"


def make_local(**options: Any) -> gymnasium.Env[Any, Any]:
    """Make the very environment that the server hosts, without a server."""
    from openenv_gym.server.adapter import TypedEnv
    from openspiel_env.server.openspiel_environment import OpenSpielEnvironment

    return TypedEnv(OpenSpielEnvironment(**options))


gymnasium.register(LOCAL, entry_point="benchmarks.openspiel:make_local")

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
                LOCAL,
                modules=("benchmarks.openspiel",),
                game="tic_tac_toe",
                steps=5_000,
            )
        ),
    ),
)
