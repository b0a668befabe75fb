"""Connect Four, for one agent and for two: what of the local rate is left."""

from __future__ import annotations

from typing import Any

import gymnasium

from benchmarks import peers
from benchmarks.model import Benchmark, Contender, Peer
from openenv_gym.server import Environment, load_app
from openenv_gym.server.adapter import TypedEnv


__all__ = ["ONE", "TWO", "make_local"]

LOCAL = "benchmarks/ConnectFour-v0"


def make_local(**kwargs: Any) -> gymnasium.Env[Any, Any]:
    """Return the environment as the server has it, without the way there and back."""
    environment = load_app("connect4_env").factory(**kwargs)
    assert isinstance(environment, Environment)
    return TypedEnv(environment)


gymnasium.register(LOCAL, entry_point="benchmarks.connect4:make_local")

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
                "the same in process", LOCAL, modules=("benchmarks.connect4",), steps=6_000
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
