"""A server's routes described: as OpenAPI, and as a page for people."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Any

from openenv_gym.server.http_messages import Note, Route


__all__ = ["TITLE", "describe_routes", "routes_page"]

TITLE = "OpenEnv Environment HTTP API"
_OPENAPI = "3.1.0"

_COMPONENTS = {"action": "Action", "observation": "Observation", "state": "State"}

_OUTCOME = {
    "type": "object",
    "properties": {
        "observation": {"$ref": "#/components/schemas/Observation"},
        "reward": {"type": ["number", "boolean", "null"]},
        "done": {"type": "boolean"},
        "metadata": {"type": ["object", "null"]},
    },
    "required": ["observation", "reward", "done"],
}
_REFUSAL = {"type": "object", "properties": {"detail": {}}, "required": ["detail"]}

_STYLE = """
body { font-family: sans-serif; margin: 2em auto; max-width: 50em; }
td { padding: .2em 1em .2em 0; }
"""


def describe_routes(
    routes: Iterable[Route], name: str, version: str, schemas: dict[str, Any]
) -> dict[str, Any]:
    """Return the OpenAPI document of a server.

    Args:
        routes: What it serves; those without a note are left out.
        name: Name of its environment.
        version: Version of its environment.
        schemas: JSON Schemas of ``action``, ``observation`` and ``state``.
    """
    paths: dict[str, Any] = {}
    for route in routes:
        if route.note is not None:
            paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, route.note)
    components = {
        component: _moved(schemas.get(key, {}), f"#/components/schemas/{component}")
        for key, component in _COMPONENTS.items()
    }
    return {
        "openapi": _OPENAPI,
        "info": {"title": TITLE, "version": version, "description": f"Environment: {name}"},
        "paths": paths,
        "components": {"schemas": {**components, "Outcome": _OUTCOME}},
    }


def _operation(route: Route, note: Note) -> dict[str, Any]:
    responses = {"200": _content("Done", dict(note.answer))}
    for status, meaning in note.errors.items():
        responses[str(status.value)] = _content(meaning, _REFUSAL)
    operation: dict[str, Any] = {"summary": note.summary, "responses": responses}
    if note.tag:
        operation["tags"] = [note.tag]
    if names := re.findall(r"\{(\w+)\}", route.path):
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in names
        ]
    if note.body is not None:
        body = _with_action(dict(note.body))
        operation["requestBody"] = {
            "required": note.body_required,
            "content": {"application/json": {"schema": body}},
        }
    return operation


def _content(meaning: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": meaning, "content": {"application/json": {"schema": schema}}}


def _with_action(body: dict[str, Any]) -> dict[str, Any]:
    """Have a body's property ``action`` be the environment's."""
    properties = body.get("properties", {})
    if "action" not in properties:
        return body
    action = {"$ref": "#/components/schemas/Action"}
    return {**body, "properties": {**properties, "action": action}}


def _moved(schema: Any, to: str) -> Any:
    """Return a schema whose references hold where it stands inside another document."""
    if isinstance(schema, dict):
        return {
            key: f"{to}{value[1:]}"
            if key == "$ref" and isinstance(value, str) and value.startswith("#")
            else _moved(value, to)
            for key, value in schema.items()
        }
    if isinstance(schema, list):
        return [_moved(each, to) for each in schema]
    return schema


def routes_page(routes: Iterable[Route], name: str) -> str:
    """Return a page that lists the routes; it loads nothing."""
    rows = "".join(
        f"<tr><td><code>{route.method}</code></td><td><code>{html.escape(route.path)}</code></td>"
        f"<td>{html.escape(route.note.summary)}</td></tr>"
        for route in routes
        if route.note is not None
    )
    title = html.escape(name)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style><h1>{title}</h1><p>{TITLE}: "
        '<a href="openapi.json">openapi.json</a>, <a href="schema">schemas</a>. Sessions are '
        f"WebSockets at <code>/ws</code>.</p><table>{rows}</table></html>"
    )
