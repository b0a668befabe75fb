"""The client of the grid world, for our servers and for those of OpenEnv."""

from __future__ import annotations

from grid_world_env.models import GridWorldAction, GridWorldObservation
from openenv_gym.models import State
from openenv_gym.openenv import EnvClient


__all__ = ["GridWorldEnv"]


class GridWorldEnv(EnvClient[GridWorldAction, GridWorldObservation, State]):
    """Walks in a grid world.

    ::

        with GridWorldEnv(base_url="http://localhost:8000").sync() as client:
            client.reset()
            client.step(GridWorldAction(action=MoveAction.DOWN)).observation.x  # 1
    """

    action_model = GridWorldAction
    observation_model = GridWorldObservation
