"""One FinRL environment: how much of the rate of the same market in this process is left."""

from __future__ import annotations

from typing import Any

import gymnasium

from benchmarks import peers
from benchmarks.model import Benchmark, Limit, Peer
from openenv_gym.server import Environment, load_app
from openenv_gym.server.adapter import TypedEnv


__all__ = ["BENCHMARK", "make_local"]

LOCAL = "benchmarks/FinRL-v0"


def make_local(**kwargs: Any) -> gymnasium.Env[Any, Any]:
    """Return the environment as the server has it, without the way there and back."""
    environment = load_app("finrl_env").factory(**kwargs)
    assert isinstance(environment, Environment)
    return TypedEnv(environment)


gymnasium.register(LOCAL, entry_point="benchmarks.finrl:make_local")

BENCHMARK = Benchmark(
    name="finrl",
    title="FinRL, three stocks with eight indicators, one environment",
    ours=peers.hosted_or_local(
        "openenv-gym, a process",
        "openenv/FinRL-v0",
        modules=("openenv_gym",),
        provider="process",
        steps=5_000,
    ),
    peers=(
        Peer(
            peers.hosted_or_local(
                "FinRL in process", LOCAL, modules=("benchmarks.finrl",), steps=10_000
            ),
            Limit(rate_at_least=0.3),
        ),
    ),
)
