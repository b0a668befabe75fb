"""The client of the echo environment, for our servers and for those of OpenEnv."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel

from echo_env.models import EchoAction, EchoObservation
from openenv_gym.models import StepResult
from openenv_gym.openenv import MCPToolClient


__all__ = ["EchoEnv"]


class EchoEnv(MCPToolClient):
    """Sends messages and gets them back.

    ::

        with EchoEnv(base_url="http://localhost:8000").sync() as client:
            print(client.reset().observation.echoed_message)
            print(client.step(EchoAction(message="Hi")).reward)
            print(client.call_tool("echo_message", message="Hi"))

    A server of OpenEnv takes calls of tools alone.
    """

    action_model: ClassVar[type[BaseModel] | None] = EchoAction
    observation_model: ClassVar[type[BaseModel] | None] = EchoObservation

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[Any]:
        return super()._parse_result(_with_greeting(payload))


def _with_greeting(payload: dict[str, Any]) -> dict[str, Any]:
    """Return a payload in which a greeting is an echo.

    Servers of OpenEnv put it into the metadata, which those of OpenEnv 0.3 keep to themselves.
    """
    observation = payload.get("observation")
    if not isinstance(observation, Mapping) or observation.keys() - {"metadata"}:
        return payload
    noted = observation.get("metadata") or payload.get("metadata")
    greeting = noted.get("message") if isinstance(noted, Mapping) else None
    greeting = greeting if isinstance(greeting, str) else ""
    fields = {**observation, "echoed_message": greeting, "message_length": len(greeting)}
    return {**payload, "observation": fields}
