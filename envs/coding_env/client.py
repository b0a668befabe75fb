"""The client of the coding environment, for our servers and for those of OpenEnv."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel

from coding_env.models import CodeAction, CodeObservation, CodeState
from openenv_gym.openenv import MCPToolClient


__all__ = ["CodingEnv"]


class CodingEnv(MCPToolClient):
    """Runs programs.

    ::

        with CodingEnv(base_url="http://localhost:8000").sync() as client:
            client.reset()
            print(client.step(CodeAction(code="print(6 * 7)")).observation.stdout)
            print(client.call_tool("run_python", code="6 * 7")["result"])

    A server of OpenEnv takes actions alone, and observes ``stdout``, ``stderr`` and ``exit_code``.
    """

    action_model: ClassVar[type[BaseModel] | None] = CodeAction
    observation_model: ClassVar[type[BaseModel] | None] = CodeObservation
    state_model: ClassVar[type[BaseModel] | None] = CodeState
