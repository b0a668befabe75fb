"""Payloads to results, and actions to payloads: what the hooks of a client do by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from openenv_gym import errors
from openenv_gym.models import StepResult
from openenv_gym.protocol.openenv_json import was_truncated


__all__ = ["action_to_payload", "parse_model", "parse_result", "read_tools", "split_payload"]

ModelT = TypeVar("ModelT", bound=BaseModel)

_OUTER = ("done", "truncated", "reward", "metadata")
_SHOWN = 5
"""How many problems of an action are told."""


def action_to_payload(action: Any, model: type[BaseModel] | None) -> dict[str, Any]:
    """Return the fields of an action; arrays stay arrays.

    Args:
        action: An instance of any model, or a mapping of fields.
        model: Checks a mapping, where there is one.

    Raises:
        InvalidActionError: It is neither, or the model refuses it.
    """
    if isinstance(action, Mapping) and model is not None:
        try:
            action = model.model_validate(dict(action))
        except ValidationError as error:
            field, _ = _first_of(error)
            raise errors.InvalidActionError(
                f"{model.__name__} does not take this action: {_all_of(error)}.", field=field
            ) from error
    if isinstance(action, BaseModel):
        fields = action.model_dump()
        if not fields.get("metadata", True):  # the caller's notes; there are none
            del fields["metadata"]
        return fields
    if isinstance(action, Mapping):
        return dict(action)
    expected = "a model or a mapping" if model is None else f"{model.__name__} or a mapping"
    raise errors.InvalidActionError(
        f"Expected {expected}, got {action!r:.80} of type {type(action).__name__}."
    )


def split_payload(payload: Mapping[str, Any]) -> tuple[dict[str, Any], StepResult[Any]]:
    """Take a payload apart.

    Returns:
        The observation's own fields, and a result in which only the observation is missing.
        ``truncated`` is what the payload says, or for a server that only knows ``done`` what the
        metadata notes (see `was_truncated`).

    Raises:
        ProtocolError: A part of it has another type than OpenEnv gives it; `field` names it.
    """
    observation = _typed(payload, "observation", dict, {})
    fields = {str(key): value for key, value in observation.items() if key != "metadata"}
    inner = _typed(observation, "metadata", dict, {})
    outer = _typed(payload, "metadata", dict, {})
    reward = _typed(payload, "reward", (bool, int, float), None)
    done = _typed(payload, "done", bool, False)
    noted = done and (was_truncated(outer) or was_truncated(inner))
    truncated = _typed(payload, "truncated", bool, noted)
    return fields, StepResult(None, reward, done, truncated, {**inner, **outer})


def parse_result(payload: Mapping[str, Any], model: type[BaseModel] | None) -> StepResult[Any]:
    """Return the result that a payload stands for.

    Args:
        payload: What the server answered; see `openenv_gym.openenv.channels`.
        model: Model of the observation; None gives a dictionary of its fields.

    Raises:
        ProtocolError: It is not what the model says; `field` names the part.
    """
    fields, result = split_payload(payload)
    if model is None:
        result.observation = dict(payload.get("observation") or {})
        return result
    outer = {
        name: getattr(result, name)
        for name in _OUTER
        if name in model.model_fields and name not in fields
    }
    result.observation = parse_model({**fields, **outer}, model, "observation")
    return result


def parse_model(fields: Any, model: type[ModelT], what: str) -> ModelT:
    """Make a model of what a server sent.

    Raises:
        ProtocolError: The model refuses it; `field` names the part.
    """
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        field, text = _first_of(error)
        raise errors.ProtocolError(
            errors.printable(f"The server's {what} does not fit {model.__name__}: {text}."),
            field=field or what,
            hint="Does the client belong to this server, in this version?",
        ) from error


def read_tools(tools: Any) -> list[dict[str, Any]]:
    """Return tools with the fields of `ToolInfo`: OpenEnv's releases and MCP name them variously.

    Raises:
        ProtocolError: It is no list of tools.
    """
    if not isinstance(tools, list) or not all(isinstance(each, Mapping) for each in tools):
        raise errors.ProtocolError(f"Expected a list of tools, got {tools!r:.80}.", field="tools")
    return [
        {
            "name": each.get("name"),
            "description": each.get("description") or "",
            "input_schema": each.get("input_schema") or each.get("inputSchema") or {},
        }
        for each in tools
    ]


def _typed(payload: Mapping[str, Any], name: str, kind: Any, default: Any) -> Any:
    value = payload.get(name)
    if value is None:
        return default
    if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0:
        value = value.item()  # a number of NumPy's, which the binary protocol keeps
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise errors.ProtocolError(
            f"The server sent {name}={value!r:.80}, expected "
            f"{' or '.join(each.__name__ for each in kinds)}.",
            field=name,
        )
    return value


def _first_of(error: ValidationError) -> tuple[str | None, str]:
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(map(str, first["loc"])) or None
    return field, f"{field}: {first['msg']}" if field else first["msg"]


def _all_of(error: ValidationError) -> str:
    """Return what is wrong, a misspelt name beside the one that is missing."""
    found = error.errors(include_url=False, include_input=False)
    texts = [f"{'.'.join(map(str, each['loc'])) or 'action'}: {each['msg']}" for each in found]
    return "; ".join(texts[:_SHOWN]) + ("; ..." if len(texts) > _SHOWN else "")
