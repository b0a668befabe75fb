"""PPO of Stable-Baselines3, with each environment in a worker process of its own.

    python examples/stable_baselines3_ppo.py                            # CartPole on servers
    python examples/stable_baselines3_ppo.py --env-id CartPole-v1       # the same without any
    python examples/stable_baselines3_ppo.py --atari --env-id openenv_gym:openenv/PongNoFrameskip-v4

With equal seeds both learn the same to the bit. Needs stable-baselines3, and opencv for Atari.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack


class Curve(BaseCallback):
    """Notes the return of each episode as it ends."""

    def __init__(self) -> None:
        super().__init__()
        self.points: list[tuple[int, float]] = []

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.points.append((self.num_timesteps, float(info["episode"]["r"])))
        return True


def make_envs(env_id: str, num_envs: int, seed: int, atari: bool) -> Any:
    """Make the environments, in processes of their own."""
    if not atari:
        return make_vec_env(env_id, n_envs=num_envs, seed=seed, vec_env_cls=SubprocVecEnv)
    envs = make_atari_env(env_id, n_envs=num_envs, seed=seed, vec_env_cls=SubprocVecEnv)
    return VecFrameStack(envs, n_stack=4)


def main() -> None:
    """Train as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env-id", default="openenv_gym:openenv/CartPole-v1")
    parser.add_argument("--atari", action="store_true", help="with Atari's usual wrappers")
    parser.add_argument("--num-envs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--total-timesteps", type=int, default=20_000)
    parser.add_argument("--num-steps", type=int, default=128, help="of each, between updates")
    parser.add_argument("--curve", type=Path, help="file for the curve, as JSON")
    args = parser.parse_args()
    torch.set_num_threads(1)

    env = gym.make(args.env_id)
    check_env(env)
    env.close()

    envs = make_envs(args.env_id, args.num_envs, args.seed, args.atari)
    try:
        policy = "CnnPolicy" if args.atari else "MlpPolicy"
        batch = args.num_envs * args.num_steps // 4
        model = PPO(
            policy, envs, n_steps=args.num_steps, batch_size=batch, seed=args.seed, device="cpu"
        )
        curve = Curve()
        model.learn(args.total_timesteps, callback=curve)
    finally:
        envs.close()

    weights = b"".join(each.detach().numpy().tobytes() for each in model.policy.parameters())
    result = {"curve": curve.points, "weights": hashlib.sha256(weights).hexdigest()}
    last = [value for _, value in curve.points[-20:]]
    print(
        f"{len(curve.points)} episodes, mean return of the last {len(last)}: "
        f"{sum(last) / max(1, len(last)):.1f}, weights {result['weights'][:16]}"
    )
    if args.curve is not None:
        args.curve.write_text(json.dumps(result) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
