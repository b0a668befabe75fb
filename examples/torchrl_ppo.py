"""PPO of TorchRL: environments in worker processes of `ParallelEnv`, gathered by a collector.

    python examples/torchrl_ppo.py                            # CartPole on servers
    python examples/torchrl_ppo.py --env-id CartPole-v1       # the same without any

With equal seeds both learn the same to the bit. Needs torchrl.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
from pathlib import Path

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torch.distributions import Categorical
from torchrl.collectors import Collector
from torchrl.envs import GymEnv, ParallelEnv, RewardSum, TransformedEnv, check_env_specs
from torchrl.modules import MLP, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE


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
    torch.manual_seed(args.seed)

    make = functools.partial(GymEnv, args.env_id, categorical_action_encoding=True)
    env = make()
    check_env_specs(env, seed=args.seed)
    (inputs,) = env.observation_spec["observation"].shape
    actions = int(env.action_spec.space.n)
    env.close()

    net = MLP(inputs, actions, num_cells=[64, 64], activation_class=nn.Tanh)
    actor = ProbabilisticActor(
        TensorDictModule(net, in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        distribution_class=Categorical,
        return_log_prob=True,
    )
    critic = ValueOperator(MLP(inputs, 1, num_cells=[64, 64], activation_class=nn.Tanh))
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic, average_gae=True)
    loss = ClipPPOLoss(actor, critic, clip_epsilon=0.2, entropy_coeff=0.01, critic_coeff=0.5)
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)

    envs = TransformedEnv(ParallelEnv(args.num_envs, make), RewardSum())
    envs.set_seed(args.seed)  # before there is a collector: it begins the first episodes
    batch = args.num_envs * args.num_steps
    collector = Collector(
        envs,
        actor,
        frames_per_batch=batch,
        total_frames=args.total_timesteps // batch * batch,
        auto_register_policy_transforms=False,
    )
    curve: list[tuple[int, float]] = []
    try:
        for number, data in enumerate(collector, 1):
            over = data["next", "done"]
            ended = data["next", "episode_reward"][over].tolist()
            curve += [(number * batch, each) for each in ended]
            for _ in range(4):
                with torch.no_grad():
                    advantage(data)
                flat = data.reshape(-1)
                for chosen in torch.randperm(batch).chunk(4):
                    parts = loss(flat[chosen])
                    total = parts["loss_objective"] + parts["loss_critic"] + parts["loss_entropy"]
                    optimizer.zero_grad()
                    total.backward()
                    nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                    optimizer.step()
            collector.update_policy_weights_()
    finally:
        collector.shutdown()

    weights = b"".join(each.detach().numpy().tobytes() for each in loss.parameters())
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
