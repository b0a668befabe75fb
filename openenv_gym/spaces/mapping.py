"""Pydantic model <-> Gymnasium space <-> sample.

::

    class Move(Action):
        column: int = Field(ge=0, lt=7)

    mapping = ModelMapping.of(Move)
    mapping.space                          # Discrete(7): the only field is the space
    mapping.to_sample(Move(column=3))      # np.int64(3)
    mapping.to_model(np.int64(3))          # Move(column=3)

The rules for single fields are in `openenv_gym.spaces.rules`.
"""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from gymnasium import spaces
from pydantic import BaseModel, RootModel, ValidationError

from openenv_gym.errors import InvalidActionError, SpaceError
from openenv_gym.spaces.describe import Notes, describe_space
from openenv_gym.spaces.mapper import ModelMapper, base_fields, model_words
from openenv_gym.spaces.models import INVALID_SAMPLE, origin_of


if TYPE_CHECKING:
    from collections.abc import Callable

    import gymnasium

__all__ = ["ModelMapping"]

ModelT = TypeVar("ModelT", bound=BaseModel)


class ModelMapping(Generic[ModelT]):
    """How the instances of one model are samples of one space. Made by `of`.

    A model with exactly one mapped field has that field's space; otherwise the space is a Dict
    with the fields in the model's order.

    Attributes:
        model: The model.
        space: Its space. All users of the mapping share it, and with it its random generator:
            whoever samples from it takes a copy (`copy.deepcopy`).
        notes: Labels and descriptions of the space, which the space itself has no place for.
        to_sample: Turns an instance into a sample. The instance is taken to be valid; arrays are
            not copied.
        to_model: Turns a sample into a validated instance; fields that are not mapped get their
            defaults. Raises `InvalidActionError`, whose `field` names the field, where the sample
            is not in the space or the model refuses it (a constraint that no space can express,
            such as `multiple_of` or a validator).
    """

    __slots__ = ("_keyed", "_names", "model", "notes", "space", "to_model", "to_sample")

    model: type[ModelT]
    space: gymnasium.Space[Any]
    notes: Notes
    to_sample: Callable[[ModelT], Any]
    to_model: Callable[[Any], ModelT]

    def __init__(self, model: type[ModelT], exclude: frozenset[str]) -> None:
        mapper = ModelMapper(model)
        names = [name for name in model.model_fields if name not in exclude]
        keyed = len(names) != 1
        # A model that was made of a space has that one, which may be a Dict with a single key.
        origin = origin_of(model) if exclude == base_fields(model) else None
        if origin is not None:
            names, keyed = list(origin.names), origin.keyed
        if not names:
            raise SpaceError(
                f"{model.__name__} has no field that could be a space.",
                field=model.__name__,
                hint="Add the fields that the agent sees or chooses.",
            )
        if keyed:
            mapped = mapper.map_all(names, model.__name__, "")
            self.to_sample = mapped.to_sample
            to_input = mapped.to_value
        else:
            key, mapped = mapper.map_own(names[0], model.__name__, names[0])
            get = operator.attrgetter(names[0])
            convert = mapped.to_sample
            self.to_sample = get if mapped.passes else lambda instance: convert(get(instance))
            to_value = mapped.to_value
            is_root = issubclass(model, RootModel)
            to_input = to_value if is_root else lambda sample: {key: to_value(sample)}
        self.model = model
        self.space = mapped.space if origin is None else origin.space
        self.notes = mapped.notes
        self.to_model = _model_maker(model, to_input)
        self._names = names
        self._keyed = keyed

    @classmethod
    def of(
        cls, model: type[ModelT], *, exclude: frozenset[str] | None = None
    ) -> ModelMapping[ModelT]:
        """Return the mapping of a model.

        Args:
            model: The model.
            exclude: Fields that are no part of the space; they need defaults. None: those of the
                base class, that is `metadata` of an `Action`; `done`, `truncated`, `reward` and
                `metadata` of an `Observation`; nothing of other models.

        Returns:
            The mapping; the same one for the same arguments, as far as the cache reaches.

        Raises:
            SpaceError: Some field cannot be mapped; `field` is ``Model.field``.
        """
        if exclude is None:
            exclude = base_fields(model)
        return cast("ModelMapping[ModelT]", _mapping(model, frozenset(exclude)))

    def describe(self) -> dict[str, Any]:
        """Describe the model to those who fill it, in plain JSON data.

        Returns:
            ``{"model": its name, "description": its words, "fields": {name: field}}``, the
            description where there is one. A field is what `describe_space` says about its space,
            with labels and description, and ``"required"``.
        """
        described: dict[str, Any] = {"model": self.model.__name__}
        words = model_words(self.model)
        if words:
            described["description"] = words
        fields = described["fields"] = {}
        for name in self._names:
            space, notes = self.space, self.notes
            if self._keyed and isinstance(space, spaces.Dict):
                space, notes = space[name], notes.parts[name]
            required = self.model.model_fields[name].is_required()
            fields[name] = {**describe_space(space, notes), "required": required}
        return described

    def __repr__(self) -> str:
        return f"ModelMapping({self.model.__name__} <-> {self.space})"


# Bounded, because models that are made at run time (for each game, say) would never be freed.
@functools.lru_cache(maxsize=256)
def _mapping(model: type[BaseModel], exclude: frozenset[str]) -> ModelMapping[Any]:
    return ModelMapping(model, exclude)


def _model_maker(model: type[ModelT], to_input: Callable[[Any], Any]) -> Callable[[Any], ModelT]:
    # What `model_validate` calls; that itself would look it up and check its arguments each time.
    validate = model.__pydantic_validator__.validate_python

    def to_model(sample: Any) -> ModelT:
        try:
            return cast("ModelT", validate(to_input(sample)))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            if first["type"] == INVALID_SAMPLE:  # it says itself where the fault is
                raise InvalidActionError(
                    first["msg"], field=first["ctx"]["field"], hint=first["ctx"]["hint"]
                ) from error
            name = ".".join(str(part) for part in first["loc"]) or model.__name__
            raise InvalidActionError(
                f"{name}: {first['msg']}.", field=name, hint=f"See the model {model.__name__}."
            ) from error

    return to_model
