"""The kinds of actions that an environment takes, each as a form; calls of tools among them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openenv_gym import errors
from openenv_gym.web.forms import form_of
from openenv_gym.web.parts import Group, leaves


__all__ = ["Kind", "kinds_of", "problems_of"]

_CALL = "CallToolAction"
_OF_TOOLS = (_CALL, "ListToolsAction")


@dataclass(frozen=True)
class Kind:
    """A kind of action.

    Attributes:
        name: What it is called.
        help: What is said about it.
        form: Its fields.
        tool: Name of the tool that it calls; None where it calls none.
        type_: What tells a call of a tool from other actions.
    """

    name: str
    help: str
    form: Group
    tool: str | None = None
    type_: str = "call_tool"

    def action_of(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the action that has these values by field."""
        if self.tool is None:
            return dict(values)
        return {"type": self.type_, "tool_name": self.tool, "arguments": dict(values)}


def kinds_of(described: Mapping[str, Any]) -> list[Kind]:
    """Return the kinds of actions that an environment describes (``describe_actions``)."""
    tools = described.get("tools") or []
    kinds = []
    for each in described.get("actions") or []:
        if each["name"] in _OF_TOOLS:
            continue
        labels = {
            name: field["labels"]
            for name, field in (each.get("fields") or {}).items()
            if field.get("type") == "Discrete" and "labels" in field
        }
        text = str(each.get("description") or "")
        kinds.append(Kind(each["name"], text, form_of(each["schema"], labels)))
    for tool in tools:
        schema = tool.get("input_schema") or {"type": "object", "properties": {}}
        text = str(tool.get("description") or "").partition("\n")[0]
        kinds.append(Kind(f"tool: {tool['name']}", text, form_of(schema, without=()), tool["name"]))
    return kinds


def problems_of(kind: Kind, error: errors.OpenEnvGymError) -> tuple[dict[str, str], str]:
    """Return what an error says about which field, and what it says about none.

    Args:
        kind: What was done.
        error: What came of it.
    """
    found: dict[str, str] = {}
    rest: list[str] = []
    listed = error.data.get("errors") if isinstance(error, errors.InvalidActionError) else None
    if isinstance(listed, list) and listed:
        said = [(each.get("loc") or [], str(each.get("msg"))) for each in listed]
    else:
        said = [(re.split(r"[.\[\]]+", error.field or ""), error.message)]
    for place, text in said:
        key = _nearest(kind.form, [str(part) for part in place if part != ""])
        if key is None:
            rest.append(text)
        else:
            found.setdefault(key, text)
    text = " ".join(rest)
    if text and error.hint and not found:
        text = f"{text} {error.hint}"
    return found, text


def _nearest(form: Group, place: list[str]) -> str | None:
    """Return the key of the field that a place in the action is in, or leads to."""
    for part in ("action", "arguments"):
        if place[:1] == [part] and part not in (form.names or ()):
            place = place[1:]
    best, length = None, 0
    for leaf in leaves(form):
        path = [each for each in re.split(r"[.|?]", leaf.key) if each]
        common = 0
        for ours, theirs in zip(path, place, strict=False):
            if ours != theirs:
                break
            common += 1
        if common > length:
            best, length = leaf.key, common
    return best
