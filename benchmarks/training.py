"""PPO of ``examples/ppo.py``: in containers, against the same training on `AsyncVectorEnv`.

A step is one of all environments, with its share of the learning, which is the same on both sides.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from benchmarks import peers
from benchmarks.harness import ROOT, BenchmarkError
from benchmarks.model import Benchmark, Contender, Limit, Peer


__all__ = ["ATARI", "CARTPOLE", "NATURE"]


@functools.cache
def _python() -> str:
    """Return the interpreter that has PyTorch."""
    python = ROOT / ".venvs" / "trainers" / "bin" / "python"
    if not python.exists():
        raise BenchmarkError(
            "PyTorch is needed, and is not there: `python3 dev.py trainers ppo` puts it into "
            f"{python.parents[1].relative_to(ROOT)}"
        )
    return str(python)


def _training(contender: Contender, **args: Any) -> Contender:
    """Return a training on a contender's environments; `args` are those of ``ppo.Args``."""
    return dataclasses.replace(
        contender,
        driver="training",
        options={**contender.options, "args": args},
        python=_python,
    )


CARTPOLE = Benchmark(
    name="ppo-cartpole",
    title="PPO on 64 CartPoles, a step of all",
    num_envs=64,
    ours=_training(
        peers.made_vector(
            "openenv-gym, containers",
            "openenv/CartPole-v1",
            num_envs=64,
            steps=640,
            modules=("openenv_gym",),
            provider="docker",
        )
    ),
    peers=(
        Peer(
            _training(peers.async_vector("CartPole-v1", num_envs=64, steps=640)),
            Limit(time_at_most=1.0),
        ),
    ),
)


def _atari(network: str, steps: int) -> Benchmark:
    args = {"network": network, "num_steps": 128, "learning_rate": 2.5e-4}
    return Benchmark(
        name="ppo-atari" if network == "small" else f"ppo-atari-{network}",
        title=f"PPO on Pong, 8 times 4x84x84, network {network}, a step of all",
        num_envs=8,
        ours=_training(
            peers.made_vector(
                "openenv-gym, containers",
                "openenv/Atari-v0",
                num_envs=8,
                steps=steps,
                modules=("openenv_gym",),
                game="pong",
                preprocess=True,
                provider="docker",
            ),
            **args,
        ),
        peers=(
            Peer(
                _training(
                    peers.async_vector(
                        "ALE/Pong-v5",
                        num_envs=8,
                        steps=steps,
                        modules=("ale_py",),
                        preprocess=True,
                        frameskip=1,
                    ),
                    **args,
                ),
                Limit(time_at_most=0.75) if network == "small" else None,
            ),
        ),
    )


ATARI = _atari("small", 512)
NATURE = _atari("nature", 128)
