"""The typed client; `gymnasium.make` needs none."""

from __future__ import annotations

from typing import ClassVar

from openenv_gym import EnvClient, State
from pydantic import BaseModel

from template_env.models import TemplateAction, TemplateObservation


__all__ = ["TemplateEnv"]


class TemplateEnv(EnvClient[TemplateAction, TemplateObservation, State]):
    """Plays the template environment on a server.

    ::

        with TemplateEnv(base_url="http://localhost:8000").sync() as client:
            print(client.reset(seed=0).observation)
    """

    action_model: ClassVar[type[BaseModel] | None] = TemplateAction
    observation_model: ClassVar[type[BaseModel] | None] = TemplateObservation
