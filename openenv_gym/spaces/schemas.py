"""JSON Schema -> Pydantic model: what a foreign server says of its actions and observations.

::

    schema = {"type": "object", "properties": {"column": {"type": "integer", "minimum": 0,
              "maximum": 6}}, "required": ["column"]}
    Move = model_from_schema(schema, Action, "Move")
    ModelMapping.of(Move).space            # Discrete(7)

docs/spaces.md, section 4, has the rules.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Any, Optional, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import SchemaError

from openenv_gym.errors import SpaceError
from openenv_gym.models import Action
from openenv_gym.spaces.mapper import base_fields
from openenv_gym.spaces.mapping import ModelMapping
from openenv_gym.spaces.schema_types import NoTypeError, Place, TooLargeError, TypeReader


__all__ = ["model_from_schema"]

ModelT = TypeVar("ModelT", bound=BaseModel)

_Made = tuple[Any, dict[str, Any]]
"""A field's type, and the arguments of `pydantic.Field` that say the rest."""

_MAX_NAME = 64


class _ByName(BaseModel):
    """A field that cannot have its name in Python is read by that name and by its own."""

    model_config = ConfigDict(
        populate_by_name=True, arbitrary_types_allowed=True, protected_namespaces=()
    )


def model_from_schema(
    schema: Mapping[str, Any], base: type[ModelT], name: str | None = None
) -> type[ModelT]:
    """Make a model of a JSON Schema, whose space is ``ModelMapping.of(model).space``.

    A property for which there is no space (``dict[str, Any]``, say) is left out: of an action where
    it need not be sent, of an observation always; see the models' own fields for what is there.

    Args:
        schema: The schema of an object (Draft 2020-12, as Pydantic writes it).
        base: `Action`, `Observation` or a subclass; properties by the names of its fields are left
            to it.
        name: Name of the model; by default the schema's title.

    Raises:
        SpaceError: The schema describes no object or is too large, an action needs a property for
            which there is no space, or there is a space for none; `field` names what it was.
    """
    return _ModelMaker(schema, base).make(name)


class _ModelMaker:
    """Makes the models of one schema."""

    def __init__(self, schema: Mapping[str, Any], base: type[BaseModel]) -> None:
        self._schema = schema
        self._base = base
        self._acts = issubclass(base, Action)
        self._kind = "action" if self._acts else "observation"
        self._types = TypeReader(schema, self._nested)

    def make(self, name: str | None) -> type[Any]:
        """Return the model of the whole schema."""
        try:
            return self._make(name)
        except (NoTypeError, TooLargeError) as error:
            raise self._fail(f"The schema of the {self._kind} cannot be read: {error}.") from None

    def _make(self, name: str | None) -> type[BaseModel]:
        node, place = self._types.resolve(self._schema, Place())
        name = name or _identifier(node.get("title"), self._base.__name__)
        properties = _properties(node)
        if properties is None:
            raise NoTypeError("it describes no object with fields")
        required = _required(node)
        fields: dict[str, Any] = {}
        left_out: list[str] = []
        for key, value in properties.items():
            needed = key in required
            if key in self._base.model_fields or self._is_settled(value, needed):
                continue
            try:
                made = self._field(key, value, needed, name, place.inside())
                self._try(made)
            except NoTypeError as error:
                why = f"{key!s:.60}: {str(error).rstrip('.'):.200}"
                if self._acts and needed:
                    raise self._fail(f"No space is known for {why}.", str(key)) from None
                left_out.append(why)
            else:
                _add(fields, key, made, self._base, properties)
        if not fields:
            reasons = f" ({'; '.join(left_out[:3])})" if left_out else ""
            raise self._fail(f"The schema of the {self._kind} has no field with a space{reasons}.")
        return _create(name, (self._base, _ByName), fields)

    def _nested(self, node: Mapping[str, Any], name: str, place: Place) -> type[BaseModel]:
        """Make the model of an object inside; see `TypeReader`."""
        name = _identifier(node.get("title"), name)
        required = _required(node)
        fields: dict[str, Any] = {}
        properties = _properties(node) or {}
        for key, value in properties.items():
            try:
                made = self._field(key, value, key in required, name, place.inside())
            except NoTypeError as error:
                # What an action need not say is left unsaid; an observation is not to be cut.
                if self._acts and key not in required:
                    continue
                raise NoTypeError(f"{key!s:.60}: {error}") from None
            _add(fields, key, made, _ByName, properties)
        if not fields:
            raise NoTypeError("it is an object of any content")
        return _create(name, (_ByName,), fields)

    def _field(self, key: str, node: Any, required: bool, owner: str, place: Place) -> _Made:
        """Return a field's type, and what else is known of it."""
        kind = self._types.read(node, f"{owner}_{_identifier(key, 'field')}", place)
        facts: dict[str, Any] = {}
        if isinstance(node, Mapping):
            if isinstance(node.get("description"), str):
                facts["description"] = node["description"]
            if "default" in node and not required:
                facts.update(default=node["default"], validate_default=True)
                if node["default"] is None and type(None) not in get_args(kind):
                    kind = Optional[kind]  # noqa: UP045  # its author did not say so, but does it
        return kind, facts

    def _is_settled(self, node: Any, required: bool) -> bool:
        """Tell whether an action has nothing to choose there: the server fills it in."""
        return self._acts and not required and isinstance(node, Mapping) and "const" in node

    def _try(self, made: _Made) -> None:
        """Refuse a field for which there is no space.

        Raises:
            NoTypeError: There is none.
        """
        kind, facts = made
        trial = _create("It", (self._base, _ByName), {"it": (kind, Field(**facts))})
        try:
            ModelMapping(trial, base_fields(trial))
        except SpaceError as error:
            raise NoTypeError(error.message.partition(": ")[2] or error.message) from None

    def _fail(self, problem: str, field: str | None = None) -> SpaceError:
        base = self._base.__name__
        return SpaceError(
            problem,
            field=f"{self._kind}.{field}" if field else self._kind,
            hint=f"Pass {self._kind}_model= with a model of your own, a subclass of "
            f"openenv_gym.{base} that has the fields that matter, each with a space.",
        )


def _create(
    name: str, bases: tuple[type[BaseModel], ...], fields: Mapping[str, Any]
) -> type[BaseModel]:
    try:
        return create_model(name, __base__=bases, __module__=__name__, **fields)
    except (PydanticUserError, SchemaError, NameError, TypeError, ValueError) as error:
        raise NoTypeError(f"no model can have it: {str(error).partition(chr(10))[0]}") from None


def _properties(node: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found = node.get("properties")
    if node.get("type", "object") != "object" or not isinstance(found, Mapping):
        return None
    return found


def _required(node: Mapping[str, Any]) -> frozenset[Any]:
    names = node.get("required")
    return frozenset(map(str, names)) if isinstance(names, list) else frozenset()


def _identifier(text: Any, otherwise: str) -> str:
    found = re.sub(r"\W+", "_", text if isinstance(text, str) else "")[:_MAX_NAME].strip("_")
    return found or otherwise


def _add(
    fields: dict[str, Any],
    key: str,
    made: _Made,
    base: type[BaseModel],
    others: Container[str],
) -> None:
    """Add a field by its own name, or by a similar one where no field can have that.

    A field can be neither private nor a method of all models. A similar name is none of `others`,
    the names in JSON, for a field is taken by either name.
    """
    name = key if key.isidentifier() and not key.startswith("_") else _identifier(key, "field")
    while (
        name in fields
        or (name != key and name in others)
        or name in base.model_fields
        or hasattr(base, name)
    ):
        name += "_"
    kind, facts = made
    fields[name] = kind, Field(**facts) if name == key else Field(alias=key, **facts)
