"""64 CartPoles in containers, against 64 processes and against one NumPy implementation."""

from __future__ import annotations

from benchmarks import peers
from benchmarks.model import Benchmark, Limit, Peer


__all__ = ["DEFAULT", "NATIVE"]

DEFAULT = Benchmark(
    name="vector-cartpole",
    title="64 CartPoles, each as it is alone, a step of all",
    num_envs=64,
    ours=peers.made_vector(
        "openenv-gym, containers",
        "openenv/CartPole-v1",
        num_envs=64,
        steps=1_000,
        modules=("openenv_gym",),
        provider="docker",
    ),
    peers=(
        Peer(peers.async_vector("CartPole-v1", num_envs=64, steps=100), Limit(rate_at_least=10.0)),
    ),
)

NATIVE = Benchmark(
    name="vector-cartpole-native",
    title='64 CartPoles, engine="native", a step of all',
    num_envs=64,
    ours=peers.made_vector(
        "openenv-gym, containers",
        "openenv/CartPole-v1",
        num_envs=64,
        steps=3_000,
        modules=("openenv_gym",),
        engine="native",
        provider="docker",
    ),
    peers=(
        Peer(peers.async_vector("CartPole-v1", num_envs=64, steps=100), Limit(rate_at_least=25.0)),
        Peer(
            peers.made_vector(
                "CartPoleVectorEnv in process",
                "CartPole-v1",
                num_envs=64,
                steps=5_000,
                vectorization_mode="vector_entry_point",
            ),
            Limit(rate_at_least=0.2),
        ),
    ),
)
