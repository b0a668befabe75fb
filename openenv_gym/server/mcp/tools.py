"""`@tool` and the table of what it marked: names, schemas, modes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from openenv_gym import errors
from openenv_gym.models.mcp import RESERVED_TOOL_NAMES, ToolInfo
from openenv_gym.server.mcp.schemas import Arguments, output_schema, read_docstring
from openenv_gym.server.mode import Mode


__all__ = ["Tool", "ToolMark", "ToolTable", "marked_methods", "tool"]

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_MARK = "__openenv_tool__"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")  # MCP's rule


@dataclass(frozen=True)
class ToolMark:
    """What `@tool` noted.

    Attributes:
        name: Name of the tool.
        description: What it does; None: what the docstring says.
        mode: The mode that has it; None: both.
        timeout_s: How long a call may take; None: as long as the environment says.
    """

    name: str
    description: str | None = None
    mode: Mode | None = None
    timeout_s: float | None = None


@dataclass(frozen=True)
class Tool:
    """A tool that can be called.

    Attributes:
        mark: What `@tool` noted.
        function: The function or bound method.
        info: What an agent sees.
        arguments: Checks what an agent sent.
        output: Schema of the structured content of results, or None.
        is_async: The function is a coroutine function.
    """

    mark: ToolMark
    function: Callable[..., Any]
    info: ToolInfo
    arguments: Arguments
    output: dict[str, Any] | None
    is_async: bool = field(default=False)

    @classmethod
    def of(cls, function: Callable[..., Any], mark: ToolMark) -> Tool:
        """Describe a function or bound method.

        Raises:
            ConfigurationError: An argument cannot be one of a tool; `field` names it.
        """
        arguments = Arguments(function, of=f"Tool {mark.name!r}")
        description = mark.description
        if description is None:
            description = read_docstring(function).description
        return cls(
            mark,
            function,
            ToolInfo(name=mark.name, description=description, input_schema=arguments.schema),
            arguments,
            output_schema(function),
            inspect.iscoroutinefunction(function),
        )


@overload
def tool(function: FunctionT, /) -> FunctionT: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    mode: Mode | str | None = None,
    timeout_s: float | None = None,
) -> Callable[[FunctionT], FunctionT]: ...


def tool(
    function: FunctionT | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    mode: Mode | str | None = None,
    timeout_s: float | None = None,
) -> FunctionT | Callable[[FunctionT], FunctionT]:
    """Make a method of an `MCPEnvironment` a tool. The method itself stays what it is.

    Its type hints say what an agent may send, its docstring what an agent is told: the first
    paragraph of the tool, and what stands below ``Args:`` of the arguments.

    Args:
        function: The method; absent where there are options.
        name: Name of the tool; by default the method's.
        description: What it does; by default what the docstring says ahead of its sections.
        mode: ``"production"`` or ``"simulation"``: the tool is there only in this mode, so that
            one name can do two things. None: in both.
        timeout_s: How long a call may take; by default `MCPEnvironment.tool_timeout_s`.

    Raises:
        InvalidOptionError: The name is reserved or none of MCP's, or there is no such mode.
    """

    def mark(marked: FunctionT) -> FunctionT:
        setattr(marked, _MARK, make_mark(marked, name, description, mode, timeout_s))
        return marked

    return mark if function is None else mark(function)


def make_mark(
    function: Callable[..., Any],
    name: str | None,
    description: str | None,
    mode: Mode | str | None,
    timeout_s: float | None,
) -> ToolMark:
    """Check the options of `tool`.

    Raises:
        InvalidOptionError: The name is reserved or none of MCP's, or there is no such mode.
    """
    name = name or function.__name__
    if name in RESERVED_TOOL_NAMES:
        raise errors.InvalidOptionError(
            f"A tool cannot be called {name!r}: an agent must not control the simulation.",
            field="name",
            hint=f"Reserved are {', '.join(sorted(RESERVED_TOOL_NAMES))}; choose another name.",
        )
    if not _NAME.fullmatch(name):
        raise errors.InvalidOptionError(
            f"A tool cannot be called {name!r:.140}: expected 1 to 128 letters, digits, '_', '.' "
            "or '-'.",
            field="name",
        )
    if mode is not None:
        try:
            mode = Mode(mode)
        except ValueError:
            raise errors.InvalidOptionError(
                f"Tool {name!r}: mode={mode!r}, expected 'production', 'simulation' or None.",
                field="mode",
            ) from None
    return ToolMark(name, description, mode, timeout_s)


def marked_methods(cls: type) -> Iterator[tuple[str, ToolMark]]:
    """Return names of a class's methods that are tools, in the order of definition.

    A method that a subclass defines anew without `@tool` is a tool no more.
    """
    names = dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base))
    for name in names:
        found = getattr(inspect.getattr_static(cls, name, None), _MARK, None)
        if isinstance(found, ToolMark):
            yield name, found


class ToolTable:
    """Tools by name and mode."""

    def __init__(self) -> None:
        self._tools: dict[str, list[Tool]] = {}

    def add(self, new: Tool) -> None:
        """Take up a tool.

        Raises:
            InvalidOptionError: There is one of this name that some mode has as well.
        """
        name = new.mark.name
        for known in self._tools.get(name, ()):
            if None in (known.mark.mode, new.mark.mode) or known.mark.mode is new.mark.mode:
                raise errors.InvalidOptionError(
                    f"There are two tools called {name!r}.",
                    field="name",
                    hint="Rename one, or give one to each mode.",
                )
        self._tools.setdefault(name, []).append(new)

    def find(self, name: str, mode: Mode) -> Tool | None:
        """Return the tool that a name stands for in a mode."""
        return next((one for one in self._tools.get(name, ()) if _has(one, mode)), None)

    def of_mode(self, mode: Mode) -> list[Tool]:
        """Return the tools that there are in a mode, in the order of definition."""
        return [one for ones in self._tools.values() for one in ones if _has(one, mode)]


def _has(one: Tool, mode: Mode) -> bool:
    return one.mark.mode in (None, mode)
