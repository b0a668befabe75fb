"""Observations per second against the number of environments: the points of the page's picture."""

from __future__ import annotations

from benchmarks import peers
from benchmarks.model import Benchmark, Contender, Peer


__all__ = ["ATARI", "CARTPOLE", "COUNTS"]

COUNTS = (1, 2, 4, 8, 16, 32, 64)


def _steps(fixed_us: float, each_us: float, num_envs: int) -> int:
    """Return about a second's worth of steps; roughly is enough."""
    return max(20, round(1e6 / (fixed_us + each_us * num_envs)))


def _atari(num_envs: int) -> Benchmark:
    local = {"modules": ("ale_py",), "preprocess": True, "frameskip": 1}
    return Benchmark(
        name=f"scaling-atari-{num_envs}",
        title=f"Pong, {num_envs} times 4x84x84, a step of all",
        num_envs=num_envs,
        ours=peers.made_vector(
            "openenv-gym, containers",
            "openenv/Atari-v0",
            num_envs=num_envs,
            steps=_steps(150, 130, num_envs),
            modules=("openenv_gym",),
            game="pong",
            preprocess=True,
            provider="docker",
        ),
        peers=(
            Peer(peers.ale_vector("pong", num_envs=num_envs, steps=_steps(50, 130, num_envs))),
            Peer(
                peers.envpool("Pong-v5", num_envs=num_envs, steps=_steps(50, 130, num_envs)),
                optional=True,
            ),
            Peer(
                peers.async_vector(
                    "ALE/Pong-v5", num_envs=num_envs, steps=_steps(300, 250, num_envs), **local
                )
            ),
            Peer(
                peers.sync_vector(
                    "ALE/Pong-v5", num_envs=num_envs, steps=_steps(50, 450, num_envs), **local
                )
            ),
        ),
    )


def _cartpole(num_envs: int) -> Benchmark:
    return Benchmark(
        name=f"scaling-cartpole-{num_envs}",
        title=f"{num_envs} CartPoles, a step of all",
        num_envs=num_envs,
        ours=_our_cartpole("openenv-gym, containers", num_envs, _steps(150, 7, num_envs)),
        peers=(
            Peer(
                _our_cartpole(
                    "openenv-gym, containers, native",
                    num_envs,
                    _steps(150, 0.1, num_envs),
                    engine="native",
                )
            ),
            Peer(
                peers.made_vector(
                    "CartPoleVectorEnv in process",
                    "CartPole-v1",
                    num_envs=num_envs,
                    steps=_steps(30, 0.1, num_envs),
                    vectorization_mode="vector_entry_point",
                )
            ),
            Peer(
                peers.envpool("CartPole-v1", num_envs=num_envs, steps=_steps(30, 1, num_envs)),
                optional=True,
            ),
            Peer(
                peers.async_vector(
                    "CartPole-v1", num_envs=num_envs, steps=_steps(100, 100, num_envs)
                )
            ),
            Peer(
                peers.sync_vector("CartPole-v1", num_envs=num_envs, steps=_steps(10, 15, num_envs))
            ),
        ),
    )


def _our_cartpole(name: str, num_envs: int, steps: int, **options: object) -> Contender:
    return peers.made_vector(
        name,
        "openenv/CartPole-v1",
        num_envs=num_envs,
        steps=steps,
        modules=("openenv_gym",),
        provider="docker",
        **options,
    )


ATARI = tuple(_atari(num_envs) for num_envs in COUNTS)
CARTPOLE = tuple(_cartpole(num_envs) for num_envs in COUNTS)
