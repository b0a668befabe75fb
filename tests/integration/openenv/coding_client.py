"""A typed client of OpenEnv for coding: ``python coding_client.py URL``."""

from __future__ import annotations

import json
import sys
from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.types import Action, Observation, State


class CodeAction(Action):
    """A program."""

    code: str


class CodeObservation(Observation):
    """What came of it; further fields are refused."""

    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0


class CodeState(State):
    """The episode."""

    last_exit_code: int = 0


class Client(EnvClient[CodeAction, CodeObservation, CodeState]):
    """Sends programs."""

    def _step_payload(self, action: CodeAction) -> dict[str, Any]:
        return {"code": action.code}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[CodeObservation]:
        seen = CodeObservation(**payload["observation"])
        return StepResult(observation=seen, reward=payload["reward"], done=payload["done"])

    def _parse_state(self, payload: dict[str, Any]) -> CodeState:
        return CodeState(**payload)


if __name__ == "__main__":
    with Client(base_url=sys.argv[1]).sync() as client:
        client.reset()
        result = client.step(CodeAction(code="print('hi')"))
        state = client.state()
    answer = {
        "stdout": result.observation.stdout,
        "exit_code": result.observation.exit_code,
        "reward": result.reward,
        "last_exit_code": state.last_exit_code,
    }
    print(json.dumps(answer))
