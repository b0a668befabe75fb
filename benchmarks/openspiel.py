"""One game of OpenSpiel: what is left of the rate of the same environment in this process."""

from __future__ import annotations

from typing import Any

import gymnasium

from benchmarks import peers
from benchmarks.model import Benchmark, Peer
from openenv_gym.server import Environment, load_app
from openenv_gym.server.adapter import TypedEnv


__all__ = ["BENCHMARK", "make_local"]

LOCAL = "benchmarks/OpenSpiel-v0"


def make_local(**kwargs: Any) -> gymnasium.Env[Any, Any]:
    """Return the environment as the server has it, without the way there and back."""
    environment = load_app("openspiel_env").factory(**kwargs)
    assert isinstance(environment, Environment)
    return TypedEnv(environment)


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
