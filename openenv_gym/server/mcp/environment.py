"""`MCPEnvironment`: an environment whose agents call tools."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from openenv_gym import errors
from openenv_gym.models import Action, Observation, State
from openenv_gym.models.mcp import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    ToolError,
    ToolErrorType,
    is_tool_action,
)
from openenv_gym.models.tool_results import settled
from openenv_gym.server.environment import Environment
from openenv_gym.server.mcp.calls import ToolCaller
from openenv_gym.server.mcp.text import ToolCallText, ToolResultText
from openenv_gym.server.mcp.tools import Tool, ToolTable, make_mark, marked_methods
from openenv_gym.server.mode import Mode
from openenv_gym.spaces.choices import describe_kind


__all__ = ["MCPEnvironment"]

ActT = TypeVar("ActT", bound=Action)
ObsT = TypeVar("ObsT", bound=Observation)
StateT = TypeVar("StateT", bound=State)
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_log = logging.getLogger(__name__)


class MCPEnvironment(Environment[ActT, ObsT, StateT]):
    """An environment with tools, which agents list and call by `step` or by MCP.

    ::

        class Notes(MCPEnvironment):
            def reset(self, *, seed=None, options=None):
                self.begin_episode(seed)
                self.lines = []
                return ToolResultText(text="An empty notebook.")

            @tool
            def write(self, line: str) -> int:
                \"\"\"Write a line; returns how many there are.\"\"\"
                self.lines.append(line)
                return len(self.lines)

    An environment that also takes actions of another kind names their model in `action_model`, and
    takes them in `act`. One that does not is text to Gymnasium (`ToolCallText`, `ToolResultText`).

    Tools run one at a time. Those with a limit run in a thread of their own, so that a call can be
    given up; what it does after that, it does beside whatever comes next.

    Attributes:
        mode: Which tools there are; the server sets it.
        tool_timeout_s: How long a call may take. None: no limit, and plain functions run in the
            thread that calls `step`, which is what an environment with thread affinity needs.
    """

    action_model: type[ActT] = ToolCallText  # type: ignore[assignment]
    observation_model: type[ObsT] = ToolResultText  # type: ignore[assignment]
    mode: Mode = Mode.SIMULATION
    tool_timeout_s: float | None = 30.0

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        seen: dict[tuple[str, Mode | None], str] = {}
        for method, mark in marked_methods(cls):
            for mode in (mark.mode,) if mark.mode else (None, *Mode):
                if (mark.name, mode) in seen:
                    raise errors.InvalidOptionError(
                        f"{cls.__name__}: {seen[mark.name, mode]} and {method} are both the tool "
                        f"{mark.name!r}.",
                        field="name",
                        hint="Rename one, or give one to each mode.",
                    )
                seen[mark.name, mode] = method

    # -- for subclasses ---------------------------------------------------------------------

    def act(self, action: ActT) -> ObsT:
        """Take a step that is no call of a tool.

        Args:
            action: A validated instance of `action_model`.

        Raises:
            InvalidActionError: The environment takes tool calls alone.
        """
        if isinstance(action, ToolCallText):
            called = self.call_tool(action.to_call())
            return ToolResultText.of(called)  # type: ignore[return-value]
        raise errors.InvalidActionError(
            f"{type(self).__name__} takes calls of tools, got a {type(action).__name__}.",
            hint="Send a CallToolAction, or define `act`.",
        )

    def judge(self, action: CallToolAction, observation: CallToolObservation) -> None:
        """Give a call its reward, and end the episode where it does; by default, neither.

        Args:
            action: The call.
            observation: What came of it; set `reward`, `done` and `truncated` here.
        """

    def tool(
        self,
        function: FunctionT | None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        mode: Mode | str | None = None,
        timeout_s: float | None = None,
    ) -> FunctionT | Callable[[FunctionT], FunctionT]:
        """Make a function a tool of this instance; arguments as those of `openenv_gym.server.tool`.

        Raises:
            ConfigurationError: It cannot be one, or there is one of that name.
        """

        def add(added: FunctionT) -> FunctionT:
            mark = make_mark(added, name, description, mode, timeout_s)
            self.tools.add(Tool.of(added, mark))
            return added

        return add if function is None else add(function)

    def read_action(self, data: Mapping[str, Any]) -> Action:
        """Return the action that a typed client sent: a call, a list of tools, or its own model's.

        Raises:
            pydantic.ValidationError: The model refuses it.
        """
        if is_tool_action(data):
            listing = data.get("type") == "list_tools"
            return (ListToolsAction if listing else CallToolAction).model_validate(data)
        return self.action_model.model_validate(data)

    # -- tools ------------------------------------------------------------------------------

    @functools.cached_property
    def tools(self) -> ToolTable:
        """The tools of all modes.

        Raises:
            ConfigurationError: A method that is marked as a tool cannot be one.
        """
        table = ToolTable()
        for name, mark in marked_methods(type(self)):
            table.add(Tool.of(getattr(self, name), mark))
        return table

    @functools.cached_property
    def _caller(self) -> ToolCaller:
        return ToolCaller()

    def step(  # type: ignore[override]  # what is added is the tools' models
        self,
        action: ActT | ListToolsAction | CallToolAction,
        *,
        timeout_s: float | None = None,
    ) -> ObsT | ListToolsObservation | CallToolObservation:
        """Take one step: list the tools, call one, or do what `act` does.

        Args:
            action: What to do.
            timeout_s: How long a call may take; by default what the tool says.
        """
        if isinstance(action, ListToolsAction):
            return self.list_tools()
        if isinstance(action, CallToolAction):
            return self.call_tool(action, timeout_s=timeout_s)
        return self.act(action)

    def list_tools(self) -> ListToolsObservation:
        """Return the tools of this mode; counts as no step."""
        return ListToolsObservation(tools=[each.info for each in self.tools.of_mode(self.mode)])

    def describe_actions(self) -> dict[str, Any]:
        """Return what an agent is told: its own kind of action, calls of tools, and the tools."""
        described = super().describe_actions()
        described["actions"].append(describe_kind(CallToolAction))
        described["tools"] = [each.model_dump() for each in self.list_tools().tools]
        return described

    def call_tool(
        self, action: CallToolAction, *, timeout_s: float | None = None
    ) -> CallToolObservation:
        """Call a tool. A failure of the call is an observation, too, with `error` set.

        Args:
            action: Which one, and its arguments.
            timeout_s: How long it may take; by default what the tool says, then `tool_timeout_s`.
        """
        observation = CallToolObservation(tool_name=action.tool_name)
        found = self.tools.find(action.tool_name, self.mode)
        if found is None:
            names = ", ".join(each.mark.name for each in self.tools.of_mode(self.mode))
            observation.error = ToolError(
                error_type=ToolErrorType.TOOL_NOT_FOUND,
                message=f"Unknown tool: {action.tool_name!r:.140}; there are {names or 'none'}.",
            )
            return observation
        self.count_step()
        for limit_s in (timeout_s, found.mark.timeout_s, self.tool_timeout_s):
            if limit_s is not None:
                break
        try:
            # Not by the model, which would take a result apart that looks like one on the wire.
            result = self._run(found, action.arguments, limit_s)
            observation.__dict__["result"] = result
        except Exception as error:
            observation.error = _tool_error(error, found.mark.name)
        self.judge(action, observation)
        return observation

    def _run(self, found: Tool, given: dict[str, Any], limit_s: float | None) -> Any:
        try:
            arguments = found.arguments.check(given)
        except errors.InvalidActionError as error:
            raise _InvalidArguments(error.message) from None
        call = functools.partial(found.function, **arguments)
        try:
            result = self._caller.call(call, limit_s, is_async=found.is_async)
        except SystemExit as error:
            raise RuntimeError(f"exit status {error.code}") from error
        return settled(result)

    def close(self) -> None:
        """End what runs tools; a subclass that has a `close` of its own calls this, too."""
        self._caller.close()


class _InvalidArguments(Exception):
    """What a caller sent does not fit the tool's schema."""


def _tool_error(error: Exception, name: str) -> ToolError:
    if isinstance(error, _InvalidArguments):
        return ToolError(
            error_type=ToolErrorType.INVALID_ARGS,
            message=f"Invalid arguments of tool {name!r}: {error}",
        )
    if isinstance(error, errors.DeadlineExceededError):
        return ToolError(
            error_type=ToolErrorType.TIMEOUT, message=f"Tool {name!r} was given up: {error}"
        )
    _log.info("Tool %s failed", name, exc_info=error)
    return ToolError(
        error_type=ToolErrorType.EXECUTION_ERROR, message=f"Error calling tool {name!r}: {error}"
    )
