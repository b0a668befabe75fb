"""OpenEnv's own client of OpenSpiel, playing: ``python openspiel_client.py URL SEED``.

Run by a Python that has OpenEnv. The client is written as those of OpenEnv's environments are: it
sends every field of the action, and reads every field of the observation and of the state.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field


class OpenSpielAction(Action):
    """An action."""

    action_id: int
    game_name: str = "catch"
    game_params: dict[str, Any] = Field(default_factory=dict)


class OpenSpielObservation(Observation):
    """What a player knows."""

    info_state: list[float]
    legal_actions: list[int]
    game_phase: str = "playing"
    current_player_id: int = 0
    opponent_last_action: int | None = None


class OpenSpielState(State):
    """What is played."""

    game_name: str = "catch"
    agent_player: int = 0
    opponent_policy: str = "random"
    game_params: dict[str, Any] = Field(default_factory=dict)
    num_players: int = 1


class OpenSpielEnv(EnvClient[OpenSpielAction, OpenSpielObservation, OpenSpielState]):
    """The client."""

    def _step_payload(self, action: OpenSpielAction) -> dict[str, Any]:
        return action.model_dump(include={"action_id", "game_name", "game_params"})

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[OpenSpielObservation]:
        fields, reward, done = payload["observation"], payload.get("reward"), payload["done"]
        names = OpenSpielObservation.model_fields.keys() - Observation.model_fields.keys()
        observation = OpenSpielObservation(
            **{name: fields[name] for name in names}, reward=reward, done=done
        )
        return StepResult(observation=observation, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> OpenSpielState:
        return OpenSpielState(**payload)


def main() -> None:
    """Take the first legal action until the game is over, and print what was seen as JSON."""
    url, seed = sys.argv[1:]
    seen: list[dict[str, Any]] = []
    with OpenSpielEnv(base_url=url).sync() as env:
        result = env.reset(seed=int(seed))
        seen.append(result.observation.model_dump(mode="json"))
        while not result.done:
            result = env.step(OpenSpielAction(action_id=result.observation.legal_actions[0]))
            seen.append(result.observation.model_dump(mode="json"))
        state = env.state().model_dump(mode="json")
    print(json.dumps({"seen": seen, "state": state}))


if __name__ == "__main__":
    main()
