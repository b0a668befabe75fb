"""The other way round: a Pydantic model from a Gymnasium space.

::

    Move = model_from_space(env.action_space, Action, "action")
    Move(action=env.action_space.sample()).model_dump_json()
    ModelMapping.of(Move).space == env.action_space

With such models an environment that was written with spaces alone speaks JSON.
"""

from __future__ import annotations

import keyword
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import gymnasium
from gymnasium import spaces
from pydantic import BaseModel, create_model
from pydantic_core import PydanticCustomError, core_schema

from openenv_gym.errors import InvalidActionError
from openenv_gym.spaces.actions import check_hosted_action
from openenv_gym.spaces.json_form import json_schema, sample_from_json, sample_to_json


if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

__all__ = ["INVALID_SAMPLE", "Origin", "Sample", "model_from_space", "origin_of"]

BaseT = TypeVar("BaseT", bound=BaseModel)

INVALID_SAMPLE = "invalid_sample"
"""Type of Pydantic's error about a value that is no sample; `field` and `hint` are its context."""

_ORIGIN = "__openenv_origin__"


class Sample:
    """Annotation of a field that holds samples of a space: ``Annotated[T, Sample(Discrete(3))]``.

    The field's space is that one. It takes a sample, which is kept as it is, or the sample's JSON
    form, and is written as JSON in that form (``docs/spaces.md`` section 3). What no environment
    with that space could make sense of is refused; bounds and dtypes of arrays are not looked at,
    because environments clip actions and stray from the bounds of their own observations.

    Attributes:
        space: The space.
        name: What errors call the sample.
    """

    __slots__ = ("name", "space")

    def __init__(self, space: gymnasium.Space[Any], name: str = "sample") -> None:
        """Describe a field that holds samples of `space`.

        Raises:
            SpaceError: Samples of that space have no JSON form.
        """
        json_schema(space)
        self.space = space
        self.name = name

    def __repr__(self) -> str:
        return f"Sample({self.space})"

    def validate(self, value: Any) -> Any:
        """Return a sample as it is, or made of its JSON form.

        Raises:
            PydanticCustomError: It is neither.
        """
        try:
            sample = sample_from_json(self.space, value, self.name)
            check_hosted_action(self.space, sample, self.name)
        except InvalidActionError as error:
            raise PydanticCustomError(
                INVALID_SAMPLE,
                "{message}",
                {
                    "message": error.message,
                    "field": error.field,
                    "hint": f"Expected: {self.space}.",
                },
            ) from None
        return sample

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Validate with `validate`; as JSON, write the JSON form."""
        return core_schema.no_info_plain_validator_function(
            self.validate,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda sample: sample_to_json(self.space, sample), when_used="json"
            ),
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe the JSON form."""
        return json_schema(self.space)


@dataclass(frozen=True, slots=True)
class Origin:
    """What a model was made of.

    Attributes:
        space: The space.
        names: Fields that hold its samples.
        keyed: The fields are the keys of the space, a Dict; otherwise the only one is the space.
    """

    space: gymnasium.Space[Any]
    names: tuple[str, ...]
    keyed: bool


def origin_of(model: type[BaseModel]) -> Origin | None:
    """Return what `model_from_space` made a model of; None for any other, derived ones too."""
    return cast("Origin | None", vars(model).get(_ORIGIN))


def model_from_space(
    space: gymnasium.Space[Any], base: type[BaseT], field: str = "action"
) -> type[BaseT]:
    """Make a model whose instances are samples of a space.

    Args:
        space: Any space of Gymnasium's own classes.
        base: What the model derives from: `Action`, `Observation` or another model, whose own
            fields are no part of the space.
        field: Name of the field that holds a sample. A `Dict` gets one field for each key instead,
            where all keys are names that a field of `base` can have: identifiers, no keywords,
            no leading underscore, and nothing that `base` has already.

    Returns:
        A new model. ``ModelMapping.of(model).space`` is `space` itself.

    Raises:
        SpaceError: The space, or one inside, is of a class of its own, or a Dict has keys that
            are equal once they are strings.
    """
    keyed = isinstance(space, spaces.Dict) and _are_names(list(space.spaces), base)
    parts: dict[str, gymnasium.Space[Any]] = {field: space}
    if keyed and isinstance(space, spaces.Dict):
        parts = dict(space.spaces)
    definitions: dict[str, Any] = {
        name: (Annotated[Any, Sample(inner, name)], ...) for name, inner in parts.items()
    }
    model = create_model(f"{type(space).__name__}{base.__name__}", __base__=base, **definitions)
    setattr(model, _ORIGIN, Origin(space, tuple(parts), keyed))
    return model


def _are_names(keys: list[Any], base: type[BaseModel]) -> bool:
    """Return whether all keys can be names of fields."""
    reserved = base.model_config.get("protected_namespaces", ("model_",))
    return bool(keys) and all(
        isinstance(key, str)
        and key.isidentifier()
        and not keyword.iskeyword(key)
        and not key.startswith(("_", "model_", *map(str, reserved)))
        and not hasattr(base, key)
        and key not in base.model_fields
        for key in keys
    )
