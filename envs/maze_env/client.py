"""The client of the maze, for our servers and for those of OpenEnv."""

from __future__ import annotations

from maze_env.models import MazeAction, MazeObservation, MazeState
from openenv_gym.openenv import EnvClient


__all__ = ["MazeEnv"]


class MazeEnv(EnvClient[MazeAction, MazeObservation, MazeState]):
    """Walks through a maze.

    ::

        with MazeEnv(base_url="http://localhost:8000").sync() as client:
            result = client.reset(seed=1)
            result = client.step(MazeAction(action=result.observation.legal_actions[0]))
    """

    action_model = MazeAction
    observation_model = MazeObservation
    state_model = MazeState
