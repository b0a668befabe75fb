"""What a model is told of a function: descriptions and JSON Schemas of its arguments and result.

The schema of the arguments comes from the signature and its type hints, with Pydantic; what they
mean, from a Google docstring (or from ``Annotated[T, Field(description=...)]``).
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import (
    PydanticInvalidForJsonSchema,
    PydanticSchemaGenerationError,
    PydanticUserError,
)
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ArgsKwargs

from openenv_gym import errors


__all__ = ["Arguments", "Docstring", "output_schema", "read_docstring"]

_SECTION = re.compile(r"^(Args|Arguments|Returns|Yields|Raises|Attributes|Examples?|Notes?):\s*$")
_ARGUMENT = re.compile(r"^(\*{0,2}\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
_NO_SCHEMA = (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, PydanticUserError)
# Pydantic speaks of Python's calls here, which a model has nothing to do with.
_MESSAGES = {
    "missing_keyword_only_argument": "missing",
    "unexpected_keyword_argument": "no such argument",
}


class _Untitled(GenerateJsonSchema):
    """Without the titles that only repeat the names of fields: a model pays for each word."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


class Docstring(NamedTuple):
    """A Google docstring, as far as a model is told of it.

    Attributes:
        description: What stands before the first section.
        arguments: Descriptions by name.
    """

    description: str
    arguments: dict[str, str]


def read_docstring(function: Callable[..., Any]) -> Docstring:
    """Take a function's docstring apart."""
    description: list[str] = []
    arguments: dict[str, str] = {}
    section, indent, name = "", 0, ""
    for line in (inspect.getdoc(function) or "").splitlines():
        if found := _SECTION.match(line):
            section, indent, name = found[1], 0, ""
        elif not section:
            description.append(line)
        elif section in ("Args", "Arguments") and line.strip():
            depth = len(line) - len(line.lstrip())
            indent = indent or depth
            entry = _ARGUMENT.match(line.strip()) if depth <= indent else None
            if entry is not None:
                name = entry[1].lstrip("*")
                arguments[name] = entry[2]
            elif name:
                arguments[name] = f"{arguments[name]} {line.strip()}".strip()
    return Docstring("\n".join(description).strip(), arguments)


class Arguments:
    """The arguments of a function: their schema, and a check of what a caller sent.

    Args:
        function: The function; `self` is no argument of it where it is a method.
        of: What it is called in errors.
        skip_first: Leave the first parameter (`self`) out.

    Attributes:
        schema: JSON Schema of an object with all of them.

    Raises:
        ConfigurationError: It takes positional-only or any number of arguments, or one has a type
            that has no JSON Schema; `field` names it.
    """

    def __init__(self, function: Callable[..., Any], *, of: str, skip_first: bool = False) -> None:
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())[int(skip_first) :]
        for parameter in parameters:
            if parameter.kind not in (
                parameter.POSITIONAL_OR_KEYWORD,
                parameter.KEYWORD_ONLY,
            ):
                raise errors.ConfigurationError(
                    f"{of}: a tool cannot have the argument {parameter}.",
                    field=parameter.name,
                    hint="Arguments come by name: give each a name and a type.",
                )
        hints = typing.get_type_hints(function, include_extras=True)
        try:
            self._adapter = _adapter(parameters, hints)
            schema = self._adapter.json_schema(schema_generator=_Untitled)
        except _NO_SCHEMA as error:
            wrong = _without_schema(parameters, hints)
            raise errors.ConfigurationError(
                f"{of}: the argument {wrong!r} has a type without a JSON Schema: "
                f"{hints.get(wrong, Any)}.",
                field=wrong,
                hint="Use JSON's own types, Pydantic models, or Annotated[np.ndarray, Array(...)].",
            ) from error
        described = read_docstring(function).arguments
        properties = schema.setdefault("properties", {})
        for name, text in described.items():
            if name in properties:
                # Beside a `$ref` nothing was read before Draft 2019-09; models read it anyway.
                properties[name].setdefault("description", text)
        schema.setdefault("type", "object")
        self.schema: dict[str, Any] = schema

    def check(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the function takes them, defaults included.

        Raises:
            InvalidActionError: One is missing, unknown or wrong; `field` names it.
        """
        try:
            checked: dict[str, Any] = self._adapter.validate_python(ArgsKwargs((), dict(given)))
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            lines = [
                f"{'.'.join(map(str, each['loc']))}: {_MESSAGES.get(each['type'], each['msg'])}"
                for each in found
            ]
            raise errors.InvalidActionError(
                "; ".join(lines), field=".".join(map(str, found[0]["loc"])) or None
            ) from None
        return checked


def _adapter(
    parameters: list[inspect.Parameter], hints: Mapping[str, Any]
) -> TypeAdapter[dict[str, Any]]:
    """Return what checks keyword arguments and hands them back.

    It is made for a function of that signature, so that Pydantic fills in the defaults.
    """

    def collect(**kwargs: Any) -> Any:
        return kwargs

    keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    collect.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    collect.__annotations__ = {each.name: hints.get(each.name, Any) for each in parameters}
    adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(collect)  # type: ignore[arg-type]
    return adapter


def _without_schema(parameters: list[inspect.Parameter], hints: Mapping[str, Any]) -> str:
    for parameter in parameters:
        try:
            TypeAdapter(hints.get(parameter.name, Any)).json_schema()
        except Exception:
            return parameter.name
    return parameters[0].name if parameters else ""


def output_schema(function: Callable[..., Any]) -> dict[str, Any] | None:
    """Return the schema of MCP's structured content of a function's results.

    An object is its own; anything else stands under the key ``result``.

    Returns:
        None where the return type does not tell, or may or may not be an object.
    """
    returned = typing.get_type_hints(function, include_extras=True).get("return", Any)
    if returned in (Any, None, type(None), bytes):
        return None
    try:
        schema = TypeAdapter(returned).json_schema(mode="serialization", schema_generator=_Untitled)
    except _NO_SCHEMA:
        return None
    kind = schema.get("type")
    if kind == "object":
        return schema
    if kind is None or kind == "null":
        return None
    definitions = schema.pop("$defs", None)
    wrapped = {
        "type": "object",
        "properties": {"result": schema},
        "required": ["result"],
        "x-fastmcp-wrap-result": True,
    }
    return {**wrapped, "$defs": definitions} if definitions else wrapped
