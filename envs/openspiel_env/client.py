"""The client of the OpenSpiel environment, for our servers and for those of OpenEnv."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel

from openenv_gym.models import StepResult
from openenv_gym.openenv import MCPToolClient
from openenv_gym.openenv.parsing import parse_result
from openspiel_env.models import (
    OpenSpielAction,
    OpenSpielObservation,
    OpenSpielState,
    TextObservation,
)


__all__ = ["OpenSpielEnv"]


class OpenSpielEnv(MCPToolClient):
    """Plays a game of OpenSpiel.

    ::

        with OpenSpielEnv(base_url="http://localhost:8000").sync() as client:
            observation = client.reset(seed=7).observation
            while not observation.done:
                action = OpenSpielAction(action_id=observation.legal_actions[0])
                observation = client.step(action).observation

    Where the server's game is in words, observations are `TextObservation`, and `step` takes
    `TextAction`. A server of OpenEnv has neither these nor tools.
    """

    action_model: ClassVar[type[BaseModel] | None] = OpenSpielAction
    observation_model: ClassVar[type[BaseModel] | None] = OpenSpielObservation
    state_model: ClassVar[type[BaseModel] | None] = OpenSpielState

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[Any]:
        fields = payload.get("observation")
        if isinstance(fields, Mapping) and "prompt" in fields:
            return parse_result(payload, TextObservation)
        return super()._parse_result(payload)
