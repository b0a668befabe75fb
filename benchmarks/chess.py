"""Chess as numbers and planes, one environment: how much of the local rate is left."""

from __future__ import annotations

from typing import Any

from benchmarks.model import Benchmark, Contender, Peer


__all__ = ["RANDOM", "STOCKFISH"]

_FORM = {"action": "discrete", "observation": "planes"}


def _benchmark(name: str, title: str, steps: int, **opponent: Any) -> Benchmark:
    def contender(shown: str, env_id: str, module: str, **more: Any) -> Contender:
        options = {"id": env_id, "modules": [module], "kwargs": {**_FORM, **opponent, **more}}
        return Contender(shown, "legal_moves", options, steps)

    hosted = ("openenv-gym, a process", "openenv/Chess-v0", "openenv_gym")
    local = ("the same in this process", "benchmarks/Local-v0", "benchmarks.local")
    return Benchmark(
        name=name,
        title=title,
        ours=contender(*hosted, provider="process"),
        peers=(Peer(contender(*local, package="chess_env")),),
    )


RANDOM = _benchmark("chess", "chess against random moves, planes and action mask", 2_000)

STOCKFISH = _benchmark(
    "chess-stockfish",
    "chess against Stockfish, 1,000 nodes a move, planes and action mask",
    200,
    opponent="stockfish",
    nodes=1_000,
)
