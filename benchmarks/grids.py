"""Small worlds of cells: how much of the local rate is left, where a step takes microseconds."""

from __future__ import annotations

from benchmarks import peers
from benchmarks.model import Benchmark, Peer


__all__ = ["GRID_WORLD", "MAZE", "SNAKE"]


def _benchmark(name: str, title: str, env_id: str, **options: object) -> Benchmark:
    """Return one with a server in a process, and for a peer the same environment in this one."""
    hosted = f"openenv/{env_id}"
    local = f"benchmarks/{env_id}"
    return Benchmark(
        name=name,
        title=title,
        ours=peers.hosted_or_local(
            "openenv-gym, a process",
            hosted,
            modules=("openenv_gym",),
            provider="process",
            steps=5_000,
            **options,
        ),
        peers=(
            Peer(
                peers.hosted_or_local(
                    "in process", local, modules=("benchmarks.own",), steps=5_000, **options
                )
            ),
        ),
    )


GRID_WORLD = _benchmark("grid-world", "Grid world, one environment", "GridWorld-v0")
MAZE = _benchmark("maze", "Maze of 9 by 9 cells, one environment", "Maze-v0")
SNAKE = _benchmark("snake", "Snake, 20 by 20 cells, one environment", "Snake-v0")
