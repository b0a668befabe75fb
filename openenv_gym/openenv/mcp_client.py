"""`MCPToolClient`: environments whose actions are calls of tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from openenv_gym import errors
from openenv_gym.models import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Observation,
    State,
    StepResult,
    ToolErrorType,
    ToolInfo,
)
from openenv_gym.openenv.calls import awaitable
from openenv_gym.openenv.env_client import EnvClient
from openenv_gym.openenv.parsing import parse_result, read_tools


__all__ = ["MCPToolClient", "ToolEnvObservation"]


class ToolEnvObservation(Observation):
    """An observation of which nothing is known: its fields are attributes."""

    model_config = ConfigDict(extra="allow")


class MCPToolClient(EnvClient[Any, Any, State]):
    """A client for environments with tools.

    ::

        async with MCPToolClient(base_url="http://localhost:8000") as client:
            await client.reset()
            print([tool.name for tool in await client.list_tools()])
            print(await client.call_tool("echo_message", message="Hi"))  # "Hi"

    `step` takes `CallToolAction`, `ListToolsAction`, and what else the environment takes.
    """

    observation_model: ClassVar[type[BaseModel] | None] = ToolEnvObservation

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._tools: list[ToolInfo] | None = None

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[Any]:
        fields = payload.get("observation")
        model = self.observation_model
        if isinstance(fields, Mapping):
            names = fields.keys() - {"metadata", "done", "reward"}
            if names == {"tools"}:
                model = ListToolsObservation
                tools = read_tools(fields["tools"])
                payload = {**payload, "observation": {**fields, "tools": tools}}
            elif "tool_name" in names and names <= {"tool_name", "result", "error"}:
                model = CallToolObservation
        return parse_result(payload, model)

    @awaitable
    async def list_tools(self, use_cache: bool = True) -> list[ToolInfo]:
        """Return the tools that there are.

        Args:
            use_cache: Ask the server only once.

        Raises:
            ProtocolError: The server sent something else.
            OpenEnvGymError: As `EnvClient.step`.
        """
        if self._tools is None or not use_cache:
            result = await self.step(ListToolsAction())
            if not isinstance(result.observation, ListToolsObservation):
                raise errors.ProtocolError(
                    "Expected a list of tools from the server, got a "
                    f"{type(result.observation).__name__}.",
                    field="tools",
                    hint="Is it an environment with tools?",
                )
            self._tools = result.observation.tools
        return list(self._tools)

    @awaitable
    async def call_tool(self, name: str, /, **arguments: Any) -> Any:
        """Call a tool and return its result.

        Args:
            name: Name of the tool.
            **arguments: Its arguments.

        Raises:
            InvalidActionError: There is no such tool, or it does not take these arguments.
            DeadlineExceededError: The tool took too long.
            EnvironmentFailedError: The tool raised an exception, or cannot be reached;
                ``data["error_type"]`` tells.
            OpenEnvGymError: As `EnvClient.step`.
        """
        result = await self.step(CallToolAction(tool_name=name, arguments=arguments))
        observation = result.observation
        if not isinstance(observation, CallToolObservation):
            raise errors.ProtocolError(
                f"Expected the result of {name} from the server, got a "
                f"{type(observation).__name__}.",
                field="tool_name",
                hint="Is it an environment with tools?",
            )
        if observation.error is not None:
            kind = observation.error.error_type
            raise _ERRORS.get(kind, errors.EnvironmentFailedError)(
                errors.printable(f"The tool {name} failed: {observation.error.message}"),
                field=name,
                data={"error_type": kind.value, "tool_name": name},
            )
        return observation.result

    @awaitable
    async def get_tool(self, name: str) -> ToolInfo | None:
        """Return a tool by its name; None where there is none."""
        tools = await self.list_tools()
        return next((tool for tool in tools if tool.name == name), None)

    @awaitable
    async def has_tool(self, name: str) -> bool:
        """Tell whether there is a tool of this name."""
        return await self.get_tool(name) is not None


_ERRORS: dict[ToolErrorType, type[errors.OpenEnvGymError]] = {
    ToolErrorType.INVALID_ARGS: errors.InvalidActionError,
    ToolErrorType.TOOL_NOT_FOUND: errors.InvalidActionError,
    ToolErrorType.TIMEOUT: errors.DeadlineExceededError,
}
