"""Rollouts collected by workers of Ray, against as many vector environments in one process."""

from __future__ import annotations

import functools

from benchmarks.harness import ROOT, BenchmarkError
from benchmarks.model import Benchmark, Contender, Limit, Peer
from tools.groups import prepare
from tools.venvs import SetupError


__all__ = ["BENCHMARK"]

VECTORS, NUM_ENVS = 2, 32


@functools.cache
def _python() -> str:
    """Make the virtual environment ready that the tests with Ray have, too."""
    try:
        return prepare("ray", venv=ROOT / ".venvs" / "ray")
    except SetupError as error:
        raise BenchmarkError(str(error)) from error


def _rollouts(name: str, kind: str) -> Contender:
    options = {"kind": kind, "vectors": VECTORS, "num_envs": NUM_ENVS, "id": "openenv/CartPole-v1"}
    return Contender(name, "rollouts", options, 2_000, _python)


BENCHMARK = Benchmark(
    name="ray-rollouts",
    title="rollouts of 2 times 32 CartPoles in processes, a step of all",
    num_envs=VECTORS * NUM_ENVS,
    ours=_rollouts("openenv_gym.ray, 2 workers", "ray"),
    peers=(Peer(_rollouts("one process, a thread for each", "threads"), Limit(rate_at_least=0.9)),),
)
