"""What an agent is told about the actions of an environment (docs/protocol.md, section 4.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from openenv_gym import errors
from openenv_gym.server.attributes import action_labels
from openenv_gym.server.plain import to_plain
from openenv_gym.spaces.choices import describe_kind, masked_choices
from openenv_gym.spaces.mapping import ModelMapping


if TYPE_CHECKING:
    import gymnasium

    from openenv_gym.server.environment import Environment

__all__ = ["describe_hosted", "describe_own", "hosted_mask"]


def describe_own(
    environment: Environment[Any, Any, Any], mask: Any = None, *, started: bool = True
) -> dict[str, Any]:
    """Describe the actions of an `Environment`.

    Args:
        environment: The environment.
        mask: ``action_mask`` of the last info.
        started: An episode has begun; before that nobody knows what is legal.

    Raises:
        Exception: Whatever the environment raises.
    """
    described = environment.describe_actions()
    legal = environment.legal_actions() if started else None
    if legal is None:
        listed = _masked(environment.action_model, described, mask)
    else:
        listed = [_fields(each) for each in legal]
    plain: dict[str, Any] = to_plain({**described, "legal": listed})
    return plain


def describe_hosted(
    env: gymnasium.Env[Any, Any], model: type[BaseModel], mask: Any = None
) -> dict[str, Any]:
    """Describe the actions of a Gymnasium environment.

    Args:
        env: The environment.
        model: Model of its actions, made of its space.
        mask: Which of them are legal, where that is known.
    """
    kind = describe_kind(model, action_labels(env.unwrapped))
    kind["description"] = f"An action of {type(env.unwrapped).__name__}."
    described = {"actions": [kind], "tools": []}
    plain: dict[str, Any] = to_plain({**described, "legal": _masked(model, described, mask)})
    return plain


def hosted_mask(env: gymnasium.Env[Any, Any], noted: Any) -> Any:
    """Return which actions are legal: what the last info says, or the environment itself.

    Args:
        env: The environment.
        noted: ``action_mask`` of the last info; None without one.
    """
    if noted is not None:
        return noted
    for name in ("action_masks", "action_mask"):
        found = getattr(env.unwrapped, name, None)
        # A method of the first name takes no arguments (Stable-Baselines3); Taxi's of the second
        # takes some.
        if callable(found) and name == "action_masks":
            return found()
        if found is not None and not callable(found):
            return found
    return None


def _masked(
    model: type[BaseModel], described: Mapping[str, Any], mask: Any
) -> list[dict[str, Any]] | None:
    fields = described["actions"][0]["fields"] if described["actions"] else None
    if mask is None or not fields or len(fields) != 1:
        return None
    return masked_choices(next(iter(fields)), ModelMapping.of(model).space, mask)


def _fields(action: Any) -> dict[str, Any]:
    if isinstance(action, BaseModel):
        return action.model_dump(mode="json", exclude={"metadata"})
    if isinstance(action, Mapping):
        return dict(action)
    raise errors.ConfigurationError(
        f"legal_actions returned {action!r:.80}; expected actions, or mappings of their fields.",
        field="legal_actions",
    )
