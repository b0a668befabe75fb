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
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, get_origin

from pydantic import AliasChoices, BaseModel, RootModel, ValidationError

from openenv_gym.errors import InvalidActionError, SpaceError
from openenv_gym.models import Action, Observation
from openenv_gym.spaces.actions import check_keys
from openenv_gym.spaces.compat import make_dict
from openenv_gym.spaces.rules import RULES, Field, Mapped


if TYPE_CHECKING:
    from collections.abc import Callable

    import gymnasium
    from pydantic.fields import FieldInfo

__all__ = ["ModelMapping", "base_fields"]

ModelT = TypeVar("ModelT", bound=BaseModel)

_HINT = (
    "Give a number bounds with `Field(ge=..., le=...)`, annotate an ndarray with `Array(shape, "
    "dtype)`, or name the space: `Annotated[T, gymnasium.spaces.X(...)]`. What the agent need not "
    "see or choose can go into `metadata`."
)


def base_fields(model: type[BaseModel]) -> frozenset[str]:
    """Return the fields that every action or observation has, which are no part of its space."""
    if issubclass(model, Action):
        return frozenset(Action.model_fields)
    if issubclass(model, Observation):
        return frozenset(Observation.model_fields)
    return frozenset()


class ModelMapping(Generic[ModelT]):
    """How the instances of one model are samples of one space. Made by `of`.

    A model with exactly one mapped field has that field's space; otherwise the space is a Dict
    with the fields in the model's order.

    Attributes:
        model: The model.
        space: Its space. All users of the mapping share it, and with it its random generator:
            whoever samples from it takes a copy (`copy.deepcopy`).
        to_sample: Turns an instance into a sample. The instance is taken to be valid; arrays are
            not copied.
        to_model: Turns a sample into a validated instance; fields that are not mapped get their
            defaults. Raises `InvalidActionError`, whose `field` names the field, where the sample
            is not in the space or the model refuses it (a constraint that no space can express,
            such as `multiple_of` or a validator).
    """

    __slots__ = ("model", "space", "to_model", "to_sample")

    model: type[ModelT]
    space: gymnasium.Space[Any]
    to_sample: Callable[[ModelT], Any]
    to_model: Callable[[Any], ModelT]

    def __init__(self, model: type[ModelT], exclude: frozenset[str]) -> None:
        _complete(model)
        names = [name for name in model.model_fields if name not in exclude]
        if len(names) == 1:
            key, mapped = _map_field(model, names[0], model.__name__, names[0], (model,))
            get = operator.attrgetter(names[0])
            convert = mapped.to_sample
            self.to_sample = get if mapped.passes else lambda instance: convert(get(instance))
            to_value = mapped.to_value
            to_input = to_value if _is_root(model) else lambda sample: {key: to_value(sample)}
        elif names:
            mapped = _map_model(model, names, model.__name__, "", (model,))
            self.to_sample = mapped.to_sample
            to_input = mapped.to_value
        else:
            raise SpaceError(
                f"{model.__name__} has no field that could be a space.",
                field=model.__name__,
                hint="Add the fields that the agent sees or chooses.",
            )
        self.model = model
        self.space = mapped.space
        self.to_model = _model_maker(model, to_input)

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

    def __repr__(self) -> str:
        return f"ModelMapping({self.model.__name__} <-> {self.space})"


# Bounded, because models that are made at run time (for each game, say) would never be freed.
@functools.lru_cache(maxsize=256)
def _mapping(model: type[BaseModel], exclude: frozenset[str]) -> ModelMapping[Any]:
    return ModelMapping(model, exclude)


def _map_field(
    model: type[BaseModel], name: str, owner: str, sample_name: str, above: tuple[type, ...]
) -> tuple[str, Mapped]:
    """Return the key under which validation takes the field, and what a rule makes of it."""
    info = model.model_fields[name]
    field = Field.of(f"{owner}.{name}", sample_name, info.annotation, tuple(info.metadata))

    def map_nested(inner: type[BaseModel], owner: str, sample_name: str) -> Mapped:
        if inner in above:
            raise field.fail(f"{inner.__name__} contains itself, so its space has no end", _HINT)
        _complete(inner)
        below = (*above, inner)
        if _is_root(inner):
            _, root = _map_field(inner, "root", owner, sample_name, below)
            return Mapped(root.space, lambda value: root.to_sample(value.root), root.to_value)
        return _map_model(inner, list(inner.model_fields), owner, f"{sample_name}.", below)

    for rule in RULES:
        mapped = rule.apply(field, map_nested)
        if mapped is not None:
            return _input_key(model, name, info), mapped
    raise field.fail(f"no space is known for the type {_show(info.annotation)}", _HINT)


def _map_model(
    model: type[BaseModel], names: list[str], owner: str, prefix: str, above: tuple[type, ...]
) -> Mapped:
    """Map several fields to a Dict; `to_value` returns what validation takes."""
    if not names:
        raise SpaceError(f"{owner}: {model.__name__} has no fields.", field=owner, hint=_HINT)
    space_items = []
    writers = []
    readers = []
    for name in names:
        key, mapped = _map_field(model, name, owner, f"{prefix}{name}", above)
        space_items.append((name, mapped.space))
        writers.append((name, operator.attrgetter(name), mapped.to_sample))
        readers.append((key, name, mapped.to_value))
    space = make_dict(space_items, sort_keys=False)
    whole = prefix.removesuffix(".") or "action"

    def to_sample(instance: Any) -> dict[str, Any]:
        return {name: convert(get(instance)) for name, get, convert in writers}

    def to_value(sample: Any) -> dict[str, Any]:
        check_keys(space, sample, whole)
        return {key: convert(sample[name]) for key, name, convert in readers}

    return Mapped(space, to_sample, to_value)


def _model_maker(model: type[ModelT], to_input: Callable[[Any], Any]) -> Callable[[Any], ModelT]:
    # What `model_validate` calls; that itself would look it up and check its arguments each time.
    validate = model.__pydantic_validator__.validate_python

    def to_model(sample: Any) -> ModelT:
        try:
            return cast("ModelT", validate(to_input(sample)))
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            name = ".".join(str(part) for part in first["loc"]) or model.__name__
            raise InvalidActionError(
                f"{name}: {first['msg']}.", field=name, hint=f"See the model {model.__name__}."
            ) from error

    return to_model


def _complete(model: type[BaseModel]) -> None:
    """Resolve names in annotations that were unknown when the class was made."""
    if not model.__pydantic_complete__:
        model.model_rebuild()


def _is_root(model: type[BaseModel]) -> bool:
    return issubclass(model, RootModel)


def _input_key(model: type[BaseModel], name: str, info: FieldInfo) -> str:
    """Return the key under which validation takes a field, which an alias replaces."""
    alias = info.validation_alias
    config = model.model_config
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    if alias is None or by_name:
        return name
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    for choice in choices:
        if isinstance(choice, str):
            return choice
    raise SpaceError(
        f"{model.__name__}.{name}: it is filled from a path inside other data.",
        field=f"{model.__name__}.{name}",
        hint="Give it an alias that is a name.",
    )


def _show(annotation: Any) -> str:
    # For Python 3.10, `list[int]` is a class too.
    is_class = isinstance(annotation, type) and get_origin(annotation) is None
    return annotation.__name__ if is_class else str(annotation)
