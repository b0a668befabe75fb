"""PPO in one file, in the manner of CleanRL: on a server of ours, or on Gymnasium's own ids.

    python examples/ppo.py                                          # 64 CartPoles on servers
    python examples/ppo.py --env-id CartPole-v1 --env-kwargs '{"vectorization_mode": "async"}'
    python examples/ppo.py --env-id openenv_gym:openenv/Atari-v0 --num-envs 8 \
        --env-kwargs '{"game": "pong", "preprocess": true}' --learning-rate 2.5e-4

Nothing in this file knows where an environment runs: the id says it. With equal seeds the curves of
both are equal to the bit, and so are the weights at the end. Needs torch and tyro.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import tyro
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from torch import nn
from torch.distributions import Categorical


@dataclass
class Args:
    """What can be chosen on the command line."""

    env_id: str = "openenv_gym:openenv/CartPole-v1"
    """the environment; the part before the colon is imported first"""
    env_kwargs: str = "{}"
    """further arguments of `gymnasium.make_vec`, as JSON"""
    num_envs: int = 64
    """sub-environments"""
    seed: int = 1
    """of the environments, the weights and the draws"""
    total_timesteps: int = 100_000
    """steps of all sub-environments together"""
    num_steps: int = 32
    """steps of each sub-environment between two updates"""
    learning_rate: float = 1e-3
    """at the beginning; it falls linearly to zero"""
    gamma: float = 0.99
    """discount"""
    gae_lambda: float = 0.95
    """of generalised advantage estimation"""
    num_minibatches: int = 4
    """of an update"""
    update_epochs: int = 4
    """how often an update goes through its batch"""
    clip_coef: float = 0.2
    """of the surrogate objective"""
    ent_coef: float = 0.01
    """weight of the entropy"""
    vf_coef: float = 0.5
    """weight of the value loss"""
    max_grad_norm: float = 0.5
    """gradients are scaled down to it"""
    network: str = "nature"
    """for pictures: `nature`, or `small`, one layer of 64 on a quarter of the width and height"""
    torch_threads: int = 1
    """of PyTorch's operators"""
    curve: Path | None = None
    """file for the curve, as JSON"""


def layer_init(layer: Any, std: float = 2**0.5, bias: float = 0.0) -> Any:
    """Make the weights orthogonal."""
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias)
    return layer


class Scale(nn.Module):
    """Bytes to numbers between 0 and 1, of each row and column or of each second one."""

    def __init__(self, stride: int = 1) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Scale them."""
        return pixels[..., :: self.stride, :: self.stride].float().div_(255.0)


class Agent(nn.Module):
    """Policy and value.

    Attributes:
        eye: What is done to observations once, as they arrive: it has no weights.
        body: What policy and value have in common.
    """

    def __init__(self, envs: gym.vector.VectorEnv[Any, Any, Any], network: str) -> None:
        super().__init__()
        shape = envs.single_observation_space.shape
        assert shape is not None, "observations must be arrays"
        assert isinstance(envs.single_action_space, gym.spaces.Discrete), "actions must be numbers"
        actions = int(envs.single_action_space.n)
        self.eye, self.body = nn.Identity(), nn.Identity()
        if len(shape) == 1:
            self.actor = self.dense([shape[0], 64, 64, actions], 0.01)
            self.critic = self.dense([shape[0], 64, 64, 1], 1.0)
        elif network == "nature":
            self.body = nn.Sequential(
                *(Scale(), layer_init(nn.Conv2d(shape[0], 32, 8, stride=4)), nn.ReLU()),
                *(layer_init(nn.Conv2d(32, 64, 4, stride=2)), nn.ReLU()),
                *(layer_init(nn.Conv2d(64, 64, 3, stride=1)), nn.ReLU(), nn.Flatten()),
                *(layer_init(nn.Linear(64 * 7 * 7, 512)), nn.ReLU()),
            )
            self.actor, self.critic = self.dense([512, actions], 0.01), self.dense([512, 1], 1.0)
        else:
            self.eye = nn.Sequential(Scale(2), nn.AvgPool2d(2), nn.Flatten())
            inputs = shape[0] * (shape[1] // 4) * (shape[2] // 4)
            self.body = nn.Sequential(layer_init(nn.Linear(inputs, 64)), nn.ReLU())
            self.actor, self.critic = self.dense([64, actions], 0.01), self.dense([64, 1], 1.0)

    @staticmethod
    def dense(sizes: list[int], std: float) -> nn.Module:
        """Return dense layers, with tanh between them."""
        layers: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise(sizes[:-1]):
            layers += [layer_init(nn.Linear(inputs, outputs)), nn.Tanh()]
        return nn.Sequential(*layers, layer_init(nn.Linear(*sizes[-2:]), std))

    def value(self, seen: torch.Tensor) -> torch.Tensor:
        """Return the value of what the eye has seen."""
        return self.critic(self.body(seen)).flatten()

    def act(
        self, seen: torch.Tensor, action: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return actions, unless they are given, their log-probability, the entropy, the value."""
        hidden = self.body(seen)
        policy = Categorical(logits=self.actor(hidden), validate_args=False)
        if action is None:
            action = policy.sample()
        return action, policy.log_prob(action), policy.entropy(), self.critic(hidden).flatten()


def train(envs: gym.vector.VectorEnv[Any, Any, Any], args: Args) -> dict[str, Any]:
    """Train, and return the curve: the step and the return of each episode that ended."""
    # TRY NOT TO MODIFY: seeding
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(args.torch_threads)

    envs = RecordEpisodeStatistics(envs)
    agent = Agent(envs, args.network)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)

    # ALGO Logic: storage, of the shape that the first observations have
    shape = (args.num_steps, args.num_envs)
    next_obs = agent.eye(torch.as_tensor(envs.reset(seed=args.seed)[0]))
    obs = torch.zeros((args.num_steps, *next_obs.shape), dtype=next_obs.dtype)
    actions = torch.zeros(shape, dtype=torch.int64)
    logprobs, rewards, values = torch.zeros(shape), torch.zeros(shape), torch.zeros(shape)
    ends = torch.zeros(shape)  # this step ended its episode: nothing after it counts
    terminals = torch.zeros(shape)  # ... and what comes after it is worth nothing
    counts = torch.zeros(shape, dtype=torch.bool)  # not a step that only began the next episode

    # TRY NOT TO MODIFY: start the game
    begin = time.perf_counter()
    curve: list[tuple[int, float]] = []
    global_step = 0
    over = torch.zeros(args.num_envs, dtype=torch.bool)
    updates = args.total_timesteps // (args.num_envs * args.num_steps)
    for update in range(updates):
        optimizer.param_groups[0]["lr"] = (1.0 - update / updates) * args.learning_rate

        for step in range(args.num_steps):
            global_step += args.num_envs
            obs[step] = next_obs
            # Gymnasium's vector environments begin an episode in the step after the last one's end.
            counts[step] = ~over
            with torch.no_grad():
                action, logprob, _, value = agent.act(next_obs)
            actions[step], logprobs[step], values[step] = action, logprob, value

            # TRY NOT TO MODIFY: execute the game
            array, reward, terminated, truncated, infos = envs.step(action.numpy())
            next_obs = agent.eye(torch.as_tensor(array))
            rewards[step] = torch.as_tensor(reward)
            over = torch.as_tensor(terminated | truncated)
            ends[step], terminals[step] = over, torch.as_tensor(terminated)
            if "episode" in infos:
                for number in np.flatnonzero(infos["_episode"]):
                    curve.append((global_step, float(infos["episode"]["r"][number])))

        # bootstrap value if not done
        advantages = torch.zeros(shape)
        with torch.no_grad():
            following, advantage = agent.value(next_obs), torch.zeros(args.num_envs)
            for t in reversed(range(args.num_steps)):
                delta = rewards[t] + args.gamma * following * (1 - terminals[t]) - values[t]
                advantage = delta + args.gamma * args.gae_lambda * (1 - ends[t]) * advantage
                advantages[t], following = advantage, values[t]

        # flatten the batch
        chosen = counts.flatten()
        b_obs, b_actions = obs.flatten(0, 1), actions.flatten()
        b_logprobs, b_advantages = logprobs.flatten(), advantages.flatten()
        b_returns = (advantages + values).flatten()

        # Optimizing the policy and value network
        indices = torch.nonzero(chosen).flatten()
        for _ in range(args.update_epochs):
            shuffled = indices[torch.randperm(len(indices))]
            for batch in shuffled.chunk(args.num_minibatches):
                _, logprob, entropy, value = agent.act(b_obs[batch], b_actions[batch])
                ratio = (logprob - b_logprobs[batch]).exp()
                advantage = b_advantages[batch]
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                pg_loss = -torch.minimum(advantage * ratio, advantage * clipped).mean()
                v_loss = 0.5 * (value - b_returns[batch]).square().mean()
                loss = pg_loss - args.ent_coef * entropy.mean() + args.vf_coef * v_loss
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()

        recent = [each for _, each in curve[-args.num_envs :]]
        if recent and update % max(1, updates // 10) == 0:
            print(f"step {global_step:,}: mean return {np.mean(recent):.1f}", flush=True)

    weights = b"".join(each.detach().numpy().tobytes() for each in agent.parameters())
    return {
        "curve": curve,
        "weights": hashlib.sha256(weights).hexdigest(),
        "seconds": time.perf_counter() - begin,
    }


def main(args: Args) -> None:
    """Train as the command line says."""
    # env setup
    envs = gym.make_vec(args.env_id, num_envs=args.num_envs, **json.loads(args.env_kwargs))
    try:
        result = train(envs, args)
    finally:
        envs.close()
    last = [each for _, each in result["curve"][-args.num_envs :]]
    print(
        f"{len(result['curve'])} episodes, mean return of the last ones {np.mean(last):.1f}, "
        f"{result['seconds']:.1f} s, weights {result['weights'][:16]}"
    )
    if args.curve is not None:
        args.curve.write_text(json.dumps(result) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(tyro.cli(Args))
