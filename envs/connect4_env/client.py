"""The client of Connect Four, for our servers and for those of OpenEnv."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel

from connect4_env.models import Connect4Action, Connect4Observation, Connect4State
from openenv_gym.openenv import EnvClient


__all__ = ["Connect4Env"]


class Connect4Env(EnvClient[Connect4Action, Connect4Observation, Connect4State]):
    """Plays Connect Four.

    ::

        with Connect4Env(base_url="http://localhost:8000").sync() as client:
            result = client.reset()
            while not result.done:
                result = client.step(Connect4Action(column=min(result.observation.legal_actions)))
    """

    action_model: ClassVar[type[BaseModel] | None] = Connect4Action
    observation_model: ClassVar[type[BaseModel] | None] = Connect4Observation
    state_model: ClassVar[type[BaseModel] | None] = Connect4State
