"""A reply of an OpenEnv server as an observation, checked against what the server said of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from openenv_gym import errors
from openenv_gym.models import Observation
from openenv_gym.protocol.openenv_json import was_truncated


__all__ = ["fields_of", "read_observation"]

ObsT = TypeVar("ObsT", bound=Observation)

_FLAG = "truncated"


def fields_of(model: type[Observation]) -> frozenset[str]:
    """Return the names under which JSON has the fields of an observation's own."""
    return frozenset(
        field.alias or name
        for name, field in model.model_fields.items()
        if name not in Observation.model_fields
    )


def read_observation(data: Mapping[str, Any], model: type[ObsT], known: frozenset[str]) -> ObsT:
    """Read the data of an ``observation`` message.

    What the model has no field for becomes part of `metadata`, which Gymnasium calls ``info``.
    ``done`` means `terminated`, unless the metadata tells that the episode was cut off.

    Args:
        data: The data of the message.
        model: Model of the observation.
        known: What `fields_of` returns for it.

    Raises:
        ProtocolError: A part is missing, or is not what the schema says; `field` names it.
    """
    seen = data.get("observation")
    if not isinstance(seen, Mapping):
        raise _lie("observation", seen, "an object")
    done = data.get("done", False)
    if not isinstance(done, bool):
        raise _lie("done", done, "true or false")
    reward = data.get("reward")
    if reward is not None and not _is_number(reward):
        raise _lie("reward", reward, "a number or null")
    notes: dict[str, Any] = {}
    for name, part in (("metadata", data), ("observation.metadata", seen)):
        found = part.get("metadata")
        if found is not None and not isinstance(found, Mapping):
            raise _lie(name, found, "an object")
        notes.update(found or {})
    truncated = done and (was_truncated(notes) or seen.get(_FLAG) is True)
    rest = {
        name: value
        for name, value in seen.items()
        if name not in known and name not in Observation.model_fields
    }
    try:
        return model.model_validate(
            {
                **{name: seen[name] for name in known if name in seen},
                "done": done,
                "truncated": truncated,
                "reward": float(reward) if isinstance(reward, bool) else reward,
                "metadata": {**notes, **rest},
            }
        )
    except ValidationError as error:
        raise _explain(error) from error


def _is_number(value: Any) -> bool:
    if not isinstance(value, (bool, int, float)):
        return False
    try:
        float(value)
    except OverflowError:  # JSON has integers beyond any float
        return False
    return True


def _explain(error: ValidationError) -> errors.ProtocolError:
    """Name the field of the first thing that is wrong."""
    first = error.errors(include_url=False, include_context=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    field = f"observation.{path}" if path else "observation"
    found = "nothing" if first["type"] == "missing" else f"{first['input']!r:.60}"
    hint = "The server's observations are not what its /schema says. "
    if first["input"] is None:
        hint += "(OpenEnv writes NaN and infinity as null.) "
    return errors.ProtocolError(
        errors.printable(f"The server sent {found} as {field}: {first['msg']}.")[:500],
        field=field[:200],
        hint=f"{hint}Pass observation_model= with what they are.",
    )


def _lie(field: str, found: Any, expected: str) -> errors.ProtocolError:
    return errors.ProtocolError(
        errors.printable(f"The server sent {found!r:.60} as {field}, expected {expected}."),
        field=field,
    )
