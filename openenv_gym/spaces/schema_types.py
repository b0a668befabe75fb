"""Python types for the nodes of a JSON Schema, as far as a model's field can have them.

The schema comes from a server that nobody vouches for: whatever it says, the work is bounded, and
what cannot be read gives `NoTypeError`, whose text ends a sentence that begins with the field.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Union
from urllib.parse import unquote

import annotated_types
import numpy as np
from pydantic import BaseModel, Discriminator, StringConstraints, TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic_core import SchemaError

from openenv_gym.errors import SpaceError
from openenv_gym.models import Array


__all__ = ["MakeModel", "NoTypeError", "Place", "TooLargeError", "TypeReader"]

_MAX_NODES = 4096  # of the schema, counted each time that a reference leads to them
_MAX_DEPTH = 12  # a space is nested at most 16 deep, and a union takes two levels
_MAX_NUMBERS = 1 << 20  # of a list whose length is fixed
_MAX_SPACES = 1 << 10  # likewise, where each element has a space of its own
_MAX_ARRAY = 1 << 24  # elements of an array, which stays one
_MAX_DIMENSIONS = 32
_MAX_LABELS = 1 << 12
_MAX_LENGTH = 1 << 20
_MAX_PATTERN = 1024
_MAX_FLOAT = 1.7976931348623157e308
_DTYPES = {"boolean": "bool", "integer": "int64", "number": "float64"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node stands.

    Attributes:
        above: References that led there.
        depth: How many schemas are around it.
        copies: How often its space occurs, in lists whose length is fixed.
    """

    above: tuple[str, ...] = ()
    depth: int = 0
    copies: int = 1

    def inside(self, copies: int = 1) -> Place:
        """Return the place of a schema inside the one that is here."""
        return Place(self.above, self.depth + 1, self.copies * copies)


MakeModel = Callable[[Mapping[str, Any], str, Place], type[BaseModel]]
"""Makes the model of a nested object: of its schema, with a name, at its place."""


class NoTypeError(Exception):
    """There is no type for a node of a schema; the text says why: "it contains itself"."""


class TooLargeError(Exception):
    """To read the whole schema is too much work."""


class TypeReader:
    """Reads the nodes of one schema.

    Args:
        document: The whole schema, to which references lead.
        make_model: Makes the models of nested objects.
    """

    def __init__(self, document: Mapping[str, Any], make_model: MakeModel) -> None:
        self._document = document
        self._make_model = make_model
        self._left = _MAX_NODES

    def resolve(self, node: Any, place: Place) -> tuple[dict[str, Any], Place]:
        """Follow references, and an ``allOf`` of one, which Pydantic writes around them.

        Args:
            node: A schema.
            place: Where it stands.

        Returns:
            The schema that is meant, with what stood beside the reference, and its place.

        Raises:
            NoTypeError: A reference leads nowhere, or in a circle.
            TooLargeError: The schema is too large.
        """
        while True:
            self._count()
            if not isinstance(node, Mapping):
                raise NoTypeError("it may hold anything" if node is True else "it is no schema")
            beside = {key: value for key, value in node.items() if key not in ("$ref", "allOf")}
            if "$ref" in node:
                target = node["$ref"]
                if target in place.above:
                    raise NoTypeError("it contains itself")
                place = replace(place, above=(*place.above, str(target)))
                inner = self._look_up(target)
            elif "allOf" in node:
                several = node["allOf"]
                if not isinstance(several, list) or len(several) != 1:
                    raise NoTypeError("it is several schemas at once (allOf)")
                inner = several[0]
            else:
                return beside, place
            if not isinstance(inner, Mapping):
                raise NoTypeError("it refers to what is no schema")
            node = {**inner, **beside}

    def read(self, node: Any, name: str, place: Place) -> Any:
        """Return the type that a schema describes.

        Args:
            node: The schema.
            name: What to call a model that has to be made.
            place: Where it stands.

        Raises:
            NoTypeError: There is none.
            TooLargeError: The schema is too large.
        """
        if place.depth > _MAX_DEPTH:
            raise NoTypeError(f"it is nested more than {_MAX_DEPTH} deep")
        node, place = self.resolve(node, place)
        if "dtype" in node and "shape" in node:
            return _array(node, node["shape"], node["dtype"])
        if "const" in node:
            return _labels([node["const"]])
        if "enum" in node:
            return _labels(node["enum"])
        kinds = node.get("type", _kind_of(node))
        if "anyOf" in node or "oneOf" in node:
            return self._union(node, name, place)
        if isinstance(kinds, list):
            members = [{**node, "type": kind} for kind in kinds]
            return self._union({"anyOf": members}, name, place)
        if kinds == "object":
            return self._object(node, name, place)
        if kinds == "array":
            return self._list(node, name, place)
        reader = _SCALARS.get(kinds) if isinstance(kinds, str) else None
        if reader is None:
            raise NoTypeError("it may hold anything" if kinds is None else f"type {kinds!r:.40}")
        return reader(node)

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise TooLargeError(f"it has more than {_MAX_NODES} parts, its references followed")

    def _look_up(self, target: Any) -> Any:
        if not isinstance(target, str) or not target.startswith("#"):
            raise NoTypeError(f"it refers to {target!r:.60}, outside the schema")
        found: Any = self._document
        for part in target[1:].split("/")[1:]:
            part = unquote(part).replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or part not in found:
                raise NoTypeError(f"it refers to {target!r:.60}, which is not there")
            found = found[part]
        return found

    def _union(self, node: Mapping[str, Any], name: str, place: Place) -> Any:
        members = node.get("anyOf", node.get("oneOf"))
        if not isinstance(members, list) or not members:
            raise NoTypeError("it is one of no schemas")
        found = [
            self.read(member, f"{name}{number}", place.inside())
            for number, member in enumerate(members, 1)
        ]
        union: Any = Union[tuple(found)]  # noqa: UP007  # of as many as there are
        discriminator = node.get("discriminator")
        tag = discriminator.get("propertyName") if isinstance(discriminator, Mapping) else None
        if tag is None:
            return union
        tagged = Annotated[union, Discriminator(tag)]
        try:
            TypeAdapter(tagged)
        except (PydanticUserError, SchemaError, TypeError, ValueError):
            return union  # a hint only: the members tell themselves apart as well
        return tagged

    def _object(self, node: Mapping[str, Any], name: str, place: Place) -> Any:
        if node.get("properties"):
            return self._make_model(node, name, place.inside())
        values = node.get("additionalProperties")
        if not isinstance(values, Mapping) or not values:
            raise NoTypeError("it is an object of any content")
        value = self.read(values, f"{name}Value", place.inside())
        keys = node.get("propertyNames")
        named = isinstance(keys, Mapping) and ("enum" in keys or "$ref" in keys)
        key = self.read(keys, name, place.inside()) if named else str
        return dict[key, value]  # type: ignore[valid-type]  # made at run time

    def _list(self, node: Mapping[str, Any], name: str, place: Place) -> Any:
        least, most = _lengths(node, "minItems", "maxItems")
        first = node.get("prefixItems")
        if first is not None:
            if not isinstance(first, list) or not first or len(first) > _MAX_SPACES:
                raise NoTypeError("prefixItems is no list of schemas")
            if most != len(first) and node.get("items") is not False:
                raise NoTypeError("its length is open behind the first elements")
            parts = [
                self.read(part, f"{name}{number}", place.inside())
                for number, part in enumerate(first, 1)
            ]
            return tuple[tuple(parts)]  # type: ignore[misc]  # made at run time
        items = node.get("items")
        if items is None or items is True or items == {}:
            raise NoTypeError("it is a list of anything")
        if least is None or least != most:
            element = self.read(items, f"{name}Item", place.inside())
            kind = list[element]  # type: ignore[valid-type]  # made at run time
            if least is None and most is None:
                return kind
            return Annotated[kind, annotated_types.Len(least or 0, most)]
        shape, leaf = self._fixed_sizes(node, place)
        if len(shape) > 1 and leaf in _DTYPES:
            return _array(node, shape, _DTYPES[leaf])
        limit = _MAX_NUMBERS if leaf in _DTYPES else _MAX_SPACES
        if place.copies * least > limit:
            raise NoTypeError(f"it is a list of {place.copies * least} elements in all")
        element = self.read(items, f"{name}Item", place.inside(least))
        return Annotated[list[element], annotated_types.Len(least, least)]  # type: ignore[valid-type]

    def _fixed_sizes(self, node: Any, place: Place) -> tuple[list[int], Any]:
        """Return the sizes of lists in lists, as far as they are fixed, and the type inside."""
        shape: list[int] = []
        while len(shape) <= _MAX_DIMENSIONS:
            least, most = _lengths(node, "minItems", "maxItems")
            if node.get("type") != "array" or least is None or least != most:
                break
            shape.append(least)
            node, place = self.resolve(node.get("items"), place)
        simple = not {"enum", "const", "anyOf", "oneOf"} & node.keys()
        return shape, node.get("type") if simple else None


# -- single values ------------------------------------------------------------------------------


def _kind_of(node: Mapping[str, Any]) -> str | None:
    """Return the type of a schema that does not name one, where its keywords tell."""
    if "properties" in node or "additionalProperties" in node:
        return "object"
    return "array" if "items" in node or "prefixItems" in node else None


def _labels(values: Any) -> Any:
    if not isinstance(values, list) or not 0 < len(values) <= _MAX_LABELS:
        raise NoTypeError("enum is no list of values")
    for value in values:
        if value is not None and not isinstance(value, (str, int, bool)):
            raise NoTypeError(f"{value!r:.40} is no label")
    return Literal[tuple(values)]


def _integer(node: Mapping[str, Any]) -> Any:
    marks: list[Any] = []
    if (low := _bound(node, "minimum")) is not None:
        marks.append(annotated_types.Ge(math.ceil(low)))
    if (low := _bound(node, "exclusiveMinimum")) is not None:
        marks.append(annotated_types.Ge(math.floor(low) + 1))
    if (high := _bound(node, "maximum")) is not None:
        marks.append(annotated_types.Le(math.floor(high)))
    if (high := _bound(node, "exclusiveMaximum")) is not None:
        marks.append(annotated_types.Le(math.ceil(high) - 1))
    step = node.get("multipleOf")
    if type(step) is int and 0 < step < 1 << 63:
        marks.append(annotated_types.MultipleOf(step))
    return _marked(int, marks)


_MARKS: dict[str, Callable[[float], Any]] = {
    "minimum": annotated_types.Ge,
    "exclusiveMinimum": annotated_types.Gt,
    "maximum": annotated_types.Le,
    "exclusiveMaximum": annotated_types.Lt,
}


def _number(node: Mapping[str, Any]) -> Any:
    marks: list[Any] = []
    for keyword, mark in _MARKS.items():
        bound = _bound(node, keyword)
        if bound is not None:
            marks.append(mark(float(bound)))
    step: Any = node.get("multipleOf")
    if type(step) in (int, float) and 0 < step <= _MAX_FLOAT:
        marks.append(annotated_types.MultipleOf(float(step)))
    return _marked(float, marks)


def _text(node: Mapping[str, Any]) -> Any:
    least, most = _lengths(node, "minLength", "maxLength")
    pattern = node.get("pattern")
    if not isinstance(pattern, str) or not _compiles(pattern):
        pattern = None  # whoever wrote it checks it as well
    if least is None and most is None and pattern is None:
        return str
    return Annotated[
        str, StringConstraints(min_length=least or None, max_length=most, pattern=pattern)
    ]


def _array(node: Mapping[str, Any], shape: Any, dtype: Any) -> Any:
    """Return the type of nested lists that are an array (docs/spaces.md, section 2.1)."""
    if not isinstance(shape, list) or any(type(size) is not int or size < 0 for size in shape):
        raise NoTypeError(f"shape {shape!r:.40} is no list of sizes")
    if len(shape) > _MAX_DIMENSIONS or math.prod(shape) > _MAX_ARRAY:
        raise NoTypeError(f"it is an array of shape {shape!r:.80}")
    leaf: Any = node
    for _ in shape:
        leaf = leaf.get("items")
        if not isinstance(leaf, Mapping):
            raise NoTypeError("its elements have no schema")
    try:
        form = Array(shape, str(dtype), _bound(leaf, "minimum"), _bound(leaf, "maximum"))
    except (SpaceError, TypeError, ValueError) as error:
        raise NoTypeError(f"it describes no array: {error}") from None
    return Annotated[np.ndarray, form]


_SCALARS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "boolean": lambda node: bool,
    "integer": _integer,
    "null": lambda node: None,
    "number": _number,
    "string": _text,
}


def _marked(kind: Any, marks: list[Any]) -> Any:
    for mark in marks:
        kind = Annotated[kind, mark]
    return kind


def _bound(node: Mapping[str, Any], keyword: str) -> int | float | None:
    """Return a bound; None where there is none, or one that no 64-bit float reaches."""
    value = node.get(keyword)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        raise NoTypeError(f"{keyword} {value!r:.40} is no number")
    return value if -_MAX_FLOAT <= value <= _MAX_FLOAT else None


def _lengths(node: Mapping[str, Any], least: str, most: str) -> tuple[int | None, int | None]:
    found: list[int | None] = []
    for keyword in (least, most):
        value = node.get(keyword)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is not None and (type(value) is not int or value < 0):
            raise NoTypeError(f"{keyword} {value!r:.40} is no length")
        found.append(value)
    shortest, longest = found
    if shortest is not None and shortest > min(
        _MAX_LENGTH, _MAX_LENGTH if longest is None else longest
    ):
        raise NoTypeError(f"{least} {shortest} is too large")
    # A longest length that nothing reaches says nothing.
    return shortest, None if longest is not None and longest > _MAX_LENGTH else longest


def _compiles(pattern: str) -> bool:
    """Tell whether Pydantic takes a pattern: its engine needs linear time, and cannot do all."""
    if len(pattern) > _MAX_PATTERN:
        return False
    try:
        re.compile(pattern)
        TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])
    except (re.error, SchemaError, PydanticUserError, RecursionError, OverflowError, ValueError):
        return False
    return True
