"""The walk through a model: each field to the first rule that knows it, nested models to a Dict."""

from __future__ import annotations

import inspect
import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import AliasChoices, BaseModel, RootModel

from openenv_gym.errors import SpaceError
from openenv_gym.models import Action, Observation
from openenv_gym.spaces.actions import check_keys
from openenv_gym.spaces.compat import make_dict
from openenv_gym.spaces.describe import Notes
from openenv_gym.spaces.rules import RULES, Field, Mapped
from openenv_gym.spaces.rules.rule import HINT, show_type


if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic.fields import FieldInfo

__all__ = ["ModelMapper", "base_fields", "complete", "model_words"]

_MAX_DEPTH = 16  # what `space_to_data` can send


def base_fields(model: type[BaseModel]) -> frozenset[str]:
    """Return the fields that every action or observation has, which are no part of its space."""
    if issubclass(model, Action):
        return frozenset(Action.model_fields)
    if issubclass(model, Observation):
        return frozenset(Observation.model_fields)
    return frozenset()


class ModelMapper:
    """Maps the fields of one model and, through the rules, what they hold.

    Attributes:
        model: The model.
    """

    def __init__(self, model: type[BaseModel], above: tuple[type[BaseModel], ...] = ()) -> None:
        """Walk through `model`, which lies inside the models `above`."""
        complete(model)
        self.model = model
        self._above = (*above, model)

    def map_own(
        self, name: str, owner: str, sample_name: str, depth: int = 0
    ) -> tuple[str, Mapped]:
        """Map one field of the model.

        Args:
            name: Its name.
            owner: What errors call the model.
            sample_name: What errors call the field's value in a sample.
            depth: How many types the model lies inside.

        Returns:
            The key under which validation takes the field, and what a rule makes of it.

        Raises:
            SpaceError: No space is known for it, or only a path of keys fills it.
        """
        info = self.model.model_fields[name]
        # The FieldInfo itself goes along for what it says in words.
        metadata = (*info.metadata, info)
        field = Field.of(f"{owner}.{name}", sample_name, info.annotation, metadata, depth)
        return _input_key(self.model, name, info), self.map_field(field)

    def map_field(self, field: Field) -> Mapped:
        """Map a field, or what a field holds.

        Raises:
            SpaceError: No space is known for it.
        """
        if field.depth >= _MAX_DEPTH:
            raise field.fail(f"its types are nested more than {_MAX_DEPTH} deep", HINT)
        for rule in RULES:
            mapped = rule.apply(field, self)
            if mapped is not None:
                words = field.description
                if not words:
                    return mapped
                return replace(mapped, notes=replace(mapped.notes, description=words))
        raise field.fail(f"no space is known for the type {show_type(field.annotation)}", HINT)

    def map_model(self, model: type[BaseModel], field: Field) -> Mapped:
        """Map the model that a field holds.

        Raises:
            SpaceError: It contains itself, or some field of it cannot be mapped.
        """
        if model in self._above:
            raise field.fail(f"{model.__name__} contains itself, so its space has no end", HINT)
        inner = ModelMapper(model, self._above)
        if issubclass(model, RootModel):
            _, root = inner.map_own("root", field.owner, field.name, field.depth + 1)
            to_sample = root.to_sample
            return Mapped(root.space, lambda v: to_sample(v.root), root.to_value, root.notes)
        names = [name for name in model.model_fields if name not in base_fields(model)]
        mapped = inner.map_all(names, field.owner, f"{field.name}.", field.depth + 1)
        return replace(mapped, notes=replace(mapped.notes, description=model_words(model)))

    def map_all(self, names: Sequence[str], owner: str, prefix: str, depth: int = 0) -> Mapped:
        """Map several fields to a Dict; `to_value` returns what validation takes.

        Args:
            names: The fields.
            owner: What errors call the model.
            prefix: What precedes their names in errors about samples (``pose.``).
            depth: How many types the model lies inside.

        Raises:
            SpaceError: There are none, or some field cannot be mapped.
        """
        if not names:
            raise SpaceError(
                f"{owner}: {self.model.__name__} has no fields.", field=owner, hint=HINT
            )
        space_items = []
        writers = []
        readers = []
        parts: dict[Any, Notes] = {}
        for name in names:
            key, mapped = self.map_own(name, owner, f"{prefix}{name}", depth)
            space_items.append((name, mapped.space))
            writers.append((name, operator.attrgetter(name), mapped.to_sample))
            readers.append((key, name, mapped.to_value))
            parts[name] = mapped.notes
        space = make_dict(space_items, sort_keys=False)
        whole = prefix.removesuffix(".") or "action"

        def to_sample(instance: Any) -> dict[str, Any]:
            return {name: convert(get(instance)) for name, get, convert in writers}

        def to_value(sample: Any) -> dict[str, Any]:
            check_keys(space, sample, whole)
            return {key: convert(sample[name]) for key, name, convert in readers}

        return Mapped(space, to_sample, to_value, Notes(parts=parts))


def complete(model: type[BaseModel]) -> None:
    """Resolve names in annotations that were unknown when the class was made."""
    if not model.__pydantic_complete__:
        model.model_rebuild()


def model_words(model: type[BaseModel]) -> str:
    """Return the first paragraph of a model's own docstring, as one line."""
    text = inspect.cleandoc(vars(model).get("__doc__") or "")
    return " ".join(text.split("\n\n")[0].split())


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
