"""PPO of Tianshou, with each environment in a worker process of its own.

    python examples/tianshou_ppo.py                            # CartPole on servers
    python examples/tianshou_ppo.py --env-id CartPole-v1       # the same without any

With equal seeds both learn the same to the bit. Needs tianshou.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import SubprocVectorEnv
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic


def main() -> None:
    """Train as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env-id", default="openenv_gym:openenv/CartPole-v1")
    parser.add_argument("--num-envs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--total-timesteps", type=int, default=20_000)
    parser.add_argument("--num-steps", type=int, default=128, help="of each, between updates")
    parser.add_argument("--curve", type=Path, help="file for the curve, as JSON")
    args = parser.parse_args()
    torch.set_num_threads(1)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    make = functools.partial(gym.make, args.env_id)
    env = make()
    observations, actions = env.observation_space, env.action_space
    assert isinstance(actions, gym.spaces.Discrete)
    env.close()
    envs = SubprocVectorEnv([make for _ in range(args.num_envs)])
    envs.seed(args.seed)

    actor = DiscreteActor(
        preprocess_net=Net(state_shape=observations.shape, hidden_sizes=[64, 64]),
        action_shape=actions.n,
        softmax_output=False,
    )
    critic = DiscreteCritic(
        preprocess_net=Net(state_shape=observations.shape, hidden_sizes=[64, 64])
    )
    algorithm = PPO(
        policy=DiscreteActorPolicy(actor=actor, action_space=actions),
        critic=critic,
        optim=AdamOptimizerFactory(lr=1e-3),
        max_grad_norm=0.5,
    )

    batch = args.num_envs * args.num_steps
    curve: list[tuple[int, float]] = []

    def note(episode: Any) -> None:
        curve.append((collector.collect_step, float(episode.rew.sum())))

    collector = Collector(
        algorithm,
        envs,
        VectorReplayBuffer(batch, args.num_envs),
        on_episode_done_hook=note,
    )
    try:
        algorithm.run_training(
            OnPolicyTrainerParams(
                training_collector=collector,
                max_epochs=1,
                epoch_num_steps=args.total_timesteps // batch * batch,
                collection_step_num_env_steps=batch,
                update_step_num_repetitions=4,
                batch_size=batch // 4,
                show_progress=False,
            )
        )
    finally:
        envs.close()

    weights = b"".join(each.detach().numpy().tobytes() for each in algorithm.parameters())
    result = {"curve": curve, "weights": hashlib.sha256(weights).hexdigest()}
    last = [value for _, value in curve[-20:]]
    print(
        f"{len(curve)} episodes, mean return of the last {len(last)}: "
        f"{sum(last) / max(1, len(last)):.1f}, weights {result['weights'][:16]}"
    )
    if args.curve is not None:
        args.curve.write_text(json.dumps(result) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
