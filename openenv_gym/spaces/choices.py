"""What an agent may do, as plain JSON data: kinds of actions, and those that are legal now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from openenv_gym.errors import SpaceError
from openenv_gym.spaces.mapper import model_words
from openenv_gym.spaces.mapping import ModelMapping


if TYPE_CHECKING:
    import gymnasium
    from pydantic import BaseModel

__all__ = ["describe_kind", "masked_choices", "noted_choices"]

_NOTED = ("legal_actions", "legal_moves")  # what OpenEnv's environments call them


def describe_kind(model: type[BaseModel], labels: Sequence[str] = ()) -> dict[str, Any]:
    """Describe one kind of action.

    Args:
        model: Its model.
        labels: What the numbers of its only field are called, where the environment knows names
            that the model does not; left out where they are not as many as there are numbers.

    Returns:
        ``name``, ``description``, ``schema`` (JSON Schema of the model) and ``fields`` (see
        `ModelMapping.describe`), which is None for a model without a space.
    """
    kind: dict[str, Any] = {
        "name": model.__name__,
        "description": model_words(model),
        "schema": model.model_json_schema(),
        "fields": None,
    }
    try:
        mapping = ModelMapping.of(model)
    except SpaceError:
        return kind
    described = mapping.describe()
    fields = kind["fields"] = described["fields"]
    if len(fields) == 1 and isinstance(mapping.space, spaces.Discrete):
        (only,) = fields.values()
        if labels and len(labels) == mapping.space.n:
            only.setdefault("labels", [str(label) for label in labels])
    return kind


def masked_choices(
    field: str, space: gymnasium.Space[Any], mask: Any
) -> list[dict[str, Any]] | None:
    """Return the actions that a mask leaves.

    Args:
        field: The field that the action has.
        space: Its space.
        mask: For a `Discrete` one number for each action, 0 where it is not legal: what Gymnasium's
            ``info["action_mask"]`` holds. Shape (n,).

    Returns:
        The actions; None where this is no mask of the space.
    """
    if mask is None or not isinstance(space, spaces.Discrete):
        return None
    try:
        array = np.asarray(mask)
    except ValueError:  # ragged
        return None
    if array.shape != (int(space.n),) or array.dtype.kind not in "biu":
        return None
    return [{field: int(space.start) + int(index)} for index in np.flatnonzero(array)]


def noted_choices(
    field: str, space: gymnasium.Space[Any] | None, observation: Mapping[str, Any]
) -> list[dict[str, Any]] | None:
    """Return the legal actions that an observation of an OpenEnv environment lists.

    By convention an environment whose actions have one field lists its legal values in an
    observation's field ``legal_actions`` or ``legal_moves``; others have an ``action_mask``.

    Args:
        field: The field that the action has.
        space: Its space, where it has one.
        observation: The observation or its metadata, as JSON has it.

    Returns:
        The actions; None where nothing is listed.
    """
    for name in _NOTED:
        listed = observation.get(name)
        if isinstance(listed, list) and all(isinstance(each, (int, str)) for each in listed):
            return [{field: value} for value in listed]
    return None if space is None else masked_choices(field, space, observation.get("action_mask"))
