"""What a language model may call: the tools of an environment, or its actions as tools."""

from __future__ import annotations

import contextlib
import json
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from openenv_gym import errors


__all__ = ["Abilities", "AgentTool", "ToolChoice", "read_json"]

ToolChoice = Literal["auto", "tools", "actions"] | Sequence[str]
"""Which tools an agent gets: the environment's own, one for each kind of action, those where there
are any and these otherwise, or some by name."""

_CALL = "CallToolAction"
_ONLY_ACTION = "act"
_TAKEN = frozenset({"reset", "get_reward", "observe"})
"""What trainers call an environment by, so that no tool may have such a name."""

_BOUNDS = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("exclusiveMaximum", "less than {}"),
)


def read_json(text: str) -> Any:
    """Return what JSON says that a model wrote.

    Raises:
        ValueError: It is none, or is nested deeper than Python reads it.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("It is nested too deeply.") from None


@dataclass(frozen=True)
class AgentTool:
    """A tool, as a language model sees it; plain data.

    Attributes:
        name: What the model calls; an identifier of Python, as trainers make methods of tools.
        description: What it does.
        schema: JSON Schema of its arguments, an object.
        target: What the environment calls it; None for a kind of action.
        constants: Fields of the action that tell its kind, and that the model need not know.
        text: The argument that holds the whole of what a model says, where there is one: its only
            one, a string.
    """

    name: str
    description: str
    schema: dict[str, Any]
    target: str | None = None
    constants: dict[str, Any] = field(default_factory=dict)
    text: str | None = None

    def payload(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the step that a call is, by field.

        Raises:
            InvalidActionError: An argument is missing or unknown, or these are no arguments.
        """
        if not isinstance(arguments, Mapping):  # whatever JSON a model wrote in their place
            raise errors.InvalidActionError(f"The arguments of {self.name} are no JSON object.")
        known = self.schema["properties"]
        missing = [name for name in self.schema.get("required", ()) if name not in arguments]
        unknown = [str(name) for name in arguments if name not in known]
        if missing or unknown:
            wrong = f"lacks {missing[0]!r}" if missing else f"has {unknown[0]!r:.80}"
            raise errors.InvalidActionError(
                f"The call of {self.name} {wrong}.",
                field=(missing or unknown)[0][:80],
                hint=f"It takes {', '.join(known) or 'no arguments'}.",
            )
        if self.target is None:
            return {**self.constants, **arguments}
        return {"type": "call_tool", "tool_name": self.target, "arguments": dict(arguments)}

    def read(self, text: str) -> dict[str, Any]:
        """Return the arguments that a model says in a text, for an agent that calls no tools.

        Raises:
            InvalidActionError: It says none.
        """
        if self.text is not None:
            return {self.text: text}
        known = list(self.schema["properties"])
        with contextlib.suppress(ValueError):
            said = read_json(text)
            if isinstance(said, dict):
                return said
            if len(known) == 1:
                return {known[0]: said}
        raise errors.InvalidActionError(
            f"{text!r:.80} is no action.",
            hint="Answer with "
            + ("the number alone." if len(known) == 1 else f"a JSON object of {', '.join(known)}."),
        )

    def to_openai(self) -> dict[str, Any]:
        """Return the tool as chat templates and OpenAI's API have it."""
        function = {"name": self.name, "description": self.description, "parameters": self.schema}
        return {"type": "function", "function": function}


@dataclass(frozen=True)
class Abilities:
    """What an agent may do in an environment; plain data.

    Attributes:
        tools: What it may call.
        speech: The action that the whole of what it says stands for, where it calls no tools; None
            where the environment takes several kinds of actions, or none.
    """

    tools: tuple[AgentTool, ...]
    speech: AgentTool | None = None

    @classmethod
    def of(cls, described: Mapping[str, Any], choice: ToolChoice = "auto") -> Abilities:
        """Return what an agent may do.

        Args:
            described: What `describe_actions` of a client returned.
            choice: Which tools it gets.

        Raises:
            InvalidOptionError: There is no such tool, or there are none; or two have one name.
        """
        own = [_own_tool(each) for each in described.get("tools") or ()]
        kinds = [each for each in described.get("actions") or () if each.get("name") != _CALL]
        actions = [_action_tool(each, alone=len(kinds) == 1) for each in kinds]
        speech = actions[0] if len(actions) == 1 else None
        return cls(tuple(_chosen(own, actions, choice)), speech)

    def tool(self, name: str) -> AgentTool:
        """Return a tool by its name.

        Raises:
            InvalidActionError: There is none of that name.
        """
        for tool in self.tools:
            if tool.name == name:
                return tool
        known = ", ".join(tool.name for tool in self.tools)
        raise errors.InvalidActionError(
            f"There is no tool {name!r:.80}.", field="tool_name", hint=f"There are {known}."
        )


def _chosen(own: list[AgentTool], actions: list[AgentTool], choice: ToolChoice) -> list[AgentTool]:
    if choice == "auto":
        chosen = own or actions
    elif choice in ("tools", "actions"):
        chosen = own if choice == "tools" else actions
    elif isinstance(choice, str):
        raise errors.InvalidOptionError(
            f"tools={choice!r:.80}: expected 'auto', 'tools', 'actions', or a list of names.",
            field="tools",
        )
    else:
        by_name = {each.name: each for each in (*actions, *own)}
        by_name |= {each.target: each for each in own if each.target}
        for name in choice:
            if name not in by_name:
                raise errors.InvalidOptionError(
                    f"tools: there is no {name!r:.80}, only {', '.join(by_name) or 'none at all'}.",
                    field="tools",
                )
        chosen = [by_name[name] for name in choice]
    _check(chosen, choice)
    return chosen


def _own_tool(described: Mapping[str, Any]) -> AgentTool:
    target = str(described.get("name"))
    schema = _plain(described.get("input_schema") or {})
    return AgentTool(_identifier(target), str(described.get("description") or ""), schema, target)


def _action_tool(kind: Mapping[str, Any], *, alone: bool) -> AgentTool:
    schema = _plain(kind.get("schema") or {})
    properties = schema["properties"]
    constants = {}
    for name in list(properties):
        if name == "metadata":  # the caller's notes
            del properties[name]
        elif "const" in properties[name]:
            constants[name] = properties.pop(name)["const"]
    schema["required"] = [name for name in schema.get("required", ()) if name in properties]
    fields = kind.get("fields") or {}
    for name, described in fields.items():
        if labels := described.get("labels"):
            _note_labels(properties.get(name), labels, int(described.get("low", 0)))
    words = str(kind.get("name") or _ONLY_ACTION).removesuffix("Action")
    name = _ONLY_ACTION if alone else _identifier(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", words))
    text = next(iter(properties), None) if len(properties) == 1 else None
    if text is not None and properties[text].get("type") != "string":
        text = None
    return AgentTool(
        name,
        str(kind.get("description") or ""),
        schema,
        constants=constants,
        text=text,
    )


def _note_labels(schema: Any, labels: Any, first: int) -> None:
    """Say in an argument's description what its numbers are called."""
    if isinstance(schema, dict) and isinstance(labels, Sequence) and not isinstance(labels, str):
        named = ", ".join(f"{first + number} {label}" for number, label in enumerate(labels))
        schema["description"] = " ".join(filter(None, (schema.get("description"), f"({named})")))


def _plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object's schema without what only validators need, and with all bounds in words."""
    copied = cast("dict[str, Any]", json.loads(json.dumps(dict(schema))))
    for part in (copied, *copied.get("$defs", {}).values()):
        for key in ("title", "description", "additionalProperties"):
            part.pop(key, None)
    properties = copied.setdefault("properties", {})
    for each in properties.values():
        each.pop("title", None)
        bounds = ", ".join(text.format(each[key]) for key, text in _BOUNDS if key in each)
        if bounds:
            each["description"] = " ".join(filter(None, (each.get("description"), f"({bounds})")))
    copied["type"] = "object"
    return copied


def _identifier(name: str) -> str:
    """Return a name that Python takes, and that trainers do not use themselves."""
    written = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_").lower() or "tool"
    if written[0].isdigit():
        written = f"tool_{written}"
    return f"{written}_tool" if written in _TAKEN or keyword.iskeyword(written) else written


def _check(tools: Iterable[AgentTool], choice: Any) -> None:
    seen: dict[str, AgentTool] = {}
    for tool in tools:
        if tool.name in seen:
            raise errors.InvalidOptionError(
                f"The tools {seen[tool.name].target!r} and {tool.target!r} would both be "
                f"{tool.name!r}.",
                field="tools",
                hint="Name the one that is meant: tools=[...].",
            )
        seen[tool.name] = tool
        for name in tool.schema["properties"]:
            if not name.isidentifier() or keyword.iskeyword(name) or name == "self":
                raise errors.InvalidOptionError(
                    f"The argument {name!r:.80} of the tool {tool.name!r} is no name of Python's, "
                    "so there can be no function for it.",
                    field="tools",
                    hint="Name other tools: tools=[...].",
                )
    if not seen:
        raise errors.InvalidOptionError(
            f"tools={choice!r:.80}: the environment has none of these.", field="tools"
        )
