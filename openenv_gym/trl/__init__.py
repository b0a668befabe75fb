"""Environments for TRL's trainers: ``GRPOTrainer(environment_factory=environment(id))``.

::

    from openenv_gym.trl import component, environment

    trainer = GRPOTrainer(
        model=model,
        train_dataset=Dataset.from_list(rows(64, prompt="Play a game of blackjack.")),
        environment_factory=environment("openenv/TextBlackjack-v0"),
        args=args,
    )

Neither TRL nor PyTorch is imported here. docs/llm_trainers.md has more.
"""

from openenv_gym.trl.factory import EnvironmentFactory, environment
from openenv_gym.trl.rewards import RewardComponent, component, episode_reward, rows
from openenv_gym.trl.rollouts import RolloutFunction, rollout_func


__all__ = [
    "EnvironmentFactory",
    "RewardComponent",
    "RolloutFunction",
    "component",
    "environment",
    "episode_reward",
    "rollout_func",
    "rows",
]
