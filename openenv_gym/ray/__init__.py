"""Rollouts from many machines: workers as actors of Ray, each with one remote vector environment.

::

    from openenv_gym.ray import collect

    result = collect("openenv/CartPole-v1", num_workers=4, num_envs=16, episodes=2, seed=7)

It needs Ray: ``pip install 'openenv-gym[ray]'``. Everything but `collector` and `worker` works
without. docs/ray.md has more.
"""

from __future__ import annotations

from openenv_gym.ray.collector import Collector, collect
from openenv_gym.ray.ledger import Missing
from openenv_gym.ray.rollouts import Episode, Rollouts, merge


__all__ = ["Collector", "Episode", "Missing", "Rollouts", "collect", "merge"]
