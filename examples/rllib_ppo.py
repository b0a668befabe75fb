"""PPO of RLlib, with several env runners: Ray actors that make their environments themselves.

    python examples/rllib_ppo.py                            # CartPole on servers
    python examples/rllib_ppo.py --env-id CartPole-v1       # the same without any

A runner knows nothing of what this file imports: the part of the id before the colon is what it
imports. With equal seeds both learn the same. Needs ray[rllib] and torch.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from pathlib import Path

import numpy as np
import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig


def main() -> None:
    """Train as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env-id", default="openenv_gym:openenv/CartPole-v1")
    parser.add_argument("--num-runners", type=int, default=2)
    parser.add_argument("--num-envs", type=int, default=4, help="of each runner")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--total-timesteps", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=1024, help="steps between updates")
    parser.add_argument("--curve", type=Path, help="file for the curve, as JSON")
    args = parser.parse_args()

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init("local", num_cpus=args.num_runners + 1, include_dashboard=False, log_to_driver=False)
    try:
        config = (
            PPOConfig()
            .environment(args.env_id)
            .env_runners(
                num_env_runners=args.num_runners,
                num_envs_per_env_runner=args.num_envs,
                rollout_fragment_length="auto",
            )
            .training(train_batch_size=args.batch, minibatch_size=128, num_epochs=4, lr=1e-3)
            .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64]))
            .debugging(seed=args.seed, log_level="ERROR")
        )
        algorithm = config.build_algo()
        curve: list[tuple[int, float]] = []
        while (step := curve[-1][0] if curve else 0) < args.total_timesteps:
            runners = algorithm.train()["env_runners"]
            curve.append((step + args.batch, float(runners["episode_return_mean"])))
            print(f"step {curve[-1][0]:,}: mean return {curve[-1][1]:.1f}", flush=True)
        state = algorithm.get_module().get_state()
        algorithm.stop()
    finally:
        ray.shutdown()

    weights = b"".join(np.ascontiguousarray(state[name]).tobytes() for name in sorted(state))
    result = {"curve": curve, "weights": hashlib.sha256(weights).hexdigest()}
    print(f"mean return at the end {curve[-1][1]:.1f}, weights {result['weights'][:16]}")
    if args.curve is not None:
        args.curve.write_text(json.dumps(result) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
