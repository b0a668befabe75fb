"""The client of the snake, for our servers and for those of OpenEnv."""

from __future__ import annotations

from openenv_gym.models import State
from openenv_gym.openenv import EnvClient
from snake_env.models import SnakeAction, SnakeObservation


__all__ = ["SnakeEnv"]


class SnakeEnv(EnvClient[SnakeAction, SnakeObservation, State]):
    """Steers a snake.

    ::

        with SnakeEnv(base_url="http://localhost:8000").sync() as client:
            client.reset(seed=1)
            client.step(SnakeAction(action=1)).observation.episode_fruits
    """

    action_model = SnakeAction
    observation_model = SnakeObservation
