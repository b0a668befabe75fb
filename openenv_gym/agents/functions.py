"""Functions for tools: with hints and docstring, as trainers read them.

TRL and transformers learn a tool from its function: name, type hints, and the docstring in
Google's style, which has to describe every argument (`transformers.utils.get_json_schema`).
"""

from __future__ import annotations

import functools
import inspect
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from openenv_gym import errors
from openenv_gym.agents.tools import AgentTool


__all__ = ["hint_of", "tool_function"]

_SIMPLE = {"string": str, "integer": int, "number": float, "boolean": bool, "null": type(None)}
_SECTION = re.compile(r"\n\s*(Args|Arguments|Attributes|Returns|Raises|Yields|Example\w*):.*", re.S)
_DEEPEST = 8  # of a schema that contains itself

Run = Callable[[Any, AgentTool, dict[str, Any]], Any]


def tool_function(tool: AgentTool, run: Run) -> Callable[..., Any]:
    """Return a function to be a method of a class, whose signature is that of a tool.

    Args:
        tool: The tool.
        run: Called with the object, the tool and the arguments that were given.

    Returns:
        The function. Where it is called with other arguments than it takes, it raises
        `InvalidActionError` with a text that a model can read.
    """
    required = set(tool.schema.get("required", ()))
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    # Python wants those without a default first; models call by name.
    properties = tool.schema["properties"]
    for name in sorted(properties, key=lambda each: each not in required):
        schema = properties[name]
        hint = hint_of(schema, tool.schema.get("$defs") or {})
        default = inspect.Parameter.empty
        if name not in required:
            default = schema.get("default")
            hint = hint if default is not None else hint | None
        parameters.append(
            inspect.Parameter(
                name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=hint
            )
        )
    signature = inspect.Signature(parameters, return_annotation=str)

    def function(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            given = dict(signature.bind(self, *args, **kwargs).arguments)
        except TypeError as error:
            taken = ", ".join(f"{each.name}" for each in parameters[1:]) or "no arguments"
            raise errors.InvalidActionError(
                f"{tool.name}: {error}.", hint=f"It takes {taken}."
            ) from None
        del given["self"]
        return run(self, tool, given)

    function.__name__ = function.__qualname__ = tool.name
    function.__doc__ = _docstring(tool, [each.name for each in parameters[1:]])
    function.__annotations__ = {
        **{each.name: each.annotation for each in parameters[1:]},
        "return": str,
    }
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def hint_of(schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int = 0) -> Any:
    """Return the type hint that stands for a JSON Schema; `Any` where there is none.

    Args:
        schema: The schema of a value.
        definitions: What its references name.
        depth: How deep inside another one it is.
    """
    if depth > _DEEPEST:
        return Any
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return hint_of(definitions.get(name) or {}, definitions, depth + 1)
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if values and all(value is None or isinstance(value, (str, int)) for value in values):
        return Literal[tuple(values)]
    kind = schema.get("type")
    choices = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(kind, list):
        choices = [{**schema, "type": each} for each in kind]
    if choices:
        return functools.reduce(
            operator.or_, (hint_of(each, definitions, depth + 1) for each in choices)
        )
    if kind == "array":
        items = schema.get("items")
        return list[hint_of(items, definitions, depth + 1)] if isinstance(items, dict) else list  # type: ignore[misc]
    if kind == "object":
        return dict
    return _SIMPLE.get(str(kind), Any)


def _docstring(tool: AgentTool, names: list[str]) -> str:
    # A heading inside the description would be taken for one of the docstring.
    words = _SECTION.sub("", f"\n{tool.description}").strip() or f"Call the tool {tool.name}."
    if not names:
        return words
    lines = [words, "", "Args:"]
    for name in names:
        said = " ".join(str(tool.schema["properties"][name].get("description") or "").split())
        lines.append(f"    {name}: {said or f'The {name}.'}")
    return "\n".join(lines) + "\n"
