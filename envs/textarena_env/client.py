"""The client of TextArena's games, for our servers and for those of OpenEnv."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel

from openenv_gym.models import StepResult
from openenv_gym.openenv import MCPToolClient
from textarena_env.models import TextArenaAction, TextArenaObservation, TextArenaState


__all__ = ["TextArenaEnv"]


class TextArenaEnv(MCPToolClient):
    """Plays a text game.

    ::

        with TextArenaEnv(base_url="http://localhost:8000").sync() as client:
            print(client.reset(seed=1).observation.prompt)
            result = client.step(TextArenaAction(message="[crane]"))
            print(result.observation.messages[-1].content, result.reward)
    """

    action_model: ClassVar[type[BaseModel] | None] = TextArenaAction
    observation_model: ClassVar[type[BaseModel] | None] = TextArenaObservation
    state_model: ClassVar[type[BaseModel] | None] = TextArenaState

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[Any]:
        """Leave out ``info``, which servers of OpenEnv have in the observation as well."""
        observation = payload.get("observation")
        if isinstance(observation, dict) and "info" in observation:
            observation = {name: value for name, value in observation.items() if name != "info"}
            payload = {**payload, "observation": observation}
        return super()._parse_result(payload)
