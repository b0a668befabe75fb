"""Reading JSON Schema as Pydantic writes it (Draft 2020-12), as far as a form needs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


__all__ = ["Schema", "items_of", "kinds_of", "label_of", "without_null"]

_MAX_HOPS = 32


class Schema:
    """A schema, in which nodes refer to each other.

    Args:
        root: All of it.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root

    def resolve(self, node: Any) -> Mapping[str, Any]:
        """Return what a node stands for, with what it says itself beside its reference."""
        said: dict[str, Any] = {}
        for _ in range(_MAX_HOPS):
            if not isinstance(node, Mapping):
                return said
            only = node.get("allOf")
            if isinstance(only, list) and len(only) == 1:
                said = {**{k: v for k, v in node.items() if k != "allOf"}, **said}
                node = only[0]
                continue
            target = node.get("$ref")
            if not isinstance(target, str):
                return {**node, **said}
            said = {**{k: v for k, v in node.items() if k != "$ref"}, **said}
            node = self._find(target)
        return said

    def enumerated(self, node: Mapping[str, Any]) -> list[Any] | None:
        """Return the values that a node lists, one after the other or as options; None: none."""
        listed = node.get("enum")
        if isinstance(listed, list) and listed:
            return listed
        options = [self.resolve(each) for each in _options(node)]
        if options and all("const" in each and "properties" not in each for each in options):
            return [each["const"] for each in options]
        return None

    def _find(self, target: str) -> Any:
        node: Any = self.root
        for name in target.removeprefix("#").split("/")[1:]:
            name = name.replace("~1", "/").replace("~0", "~")
            node = node.get(name) if isinstance(node, Mapping) else None
        return node


def without_null(schema: Schema, node: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """Return a node without the option that is null, and whether there was one."""
    kinds = node.get("type")
    if isinstance(kinds, list):
        named = [each for each in kinds if each != "null"]
        return {**node, "type": named[0] if len(named) == 1 else named}, len(named) < len(kinds)
    options = _options(node)
    others = [each for each in options if schema.resolve(each).get("type") != "null"]
    if len(others) == len(options):
        return node, False
    beside = {key: value for key, value in node.items() if key not in ("anyOf", "oneOf")}
    if len(others) == 1:
        return {**schema.resolve(others[0]), **beside}, True
    return {**beside, "anyOf": others}, True


def kinds_of(schema: Schema, node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the options of a node that is one of several; nothing where it is not."""
    return [schema.resolve(each) for each in _options(node)]


def label_of(schema: Schema, node: Mapping[str, Any], number: int) -> str:
    """Return what an option is called: by its title, by what tells it apart, or by its type."""
    properties = node.get("properties")
    if isinstance(properties, Mapping):
        # The form of a `OneOf` of Gymnasium (docs/spaces.md, section 3).
        if set(properties) == {"index", "value"}:
            inner = schema.resolve(properties["value"])
            return f"{number}: {inner.get('title') or inner.get('type') or 'value'}"
        for each in properties.values():
            const = schema.resolve(each).get("const")
            if isinstance(const, str):
                return const
    return str(node.get("title") or node.get("type") or number)


def items_of(schema: Schema, node: Mapping[str, Any], most: int) -> list[Any] | None:
    """Return the schema of each element of a list of fixed length; None for any other list."""
    prefix = node.get("prefixItems")
    if isinstance(prefix, list):
        return prefix if len(prefix) <= most else None
    size = node.get("minItems")
    if type(size) is not int or size != node.get("maxItems") or not 0 < size <= most:
        return None
    each = schema.resolve(node.get("items") or {})
    if each.get("type") == "array":  # a matrix is clearer as JSON
        return None
    return [each] * size


def _options(node: Mapping[str, Any]) -> list[Any]:
    for name in ("oneOf", "anyOf"):
        found = node.get(name)
        if isinstance(found, list) and found:
            return found
    return []
