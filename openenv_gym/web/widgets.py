"""Fields as Gradio shows them: one component each, and a line for what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gradio

from openenv_gym.web.forms import Group, Leaf, Part, Union, bounds_of


__all__ = ["Field", "Shown", "problem_html", "show_form", "value_of"]

_MAX_RADIO = 8  # choices that are shown side by side
_MAX_LABEL = 24


@dataclass(frozen=True)
class Field:
    """A field on the page.

    Attributes:
        leaf: What it is.
        widget: Where it is filled in.
        problem: Says what is wrong with it.
    """

    leaf: Leaf
    widget: Any
    problem: Any


Shown = list[Field]


def show_form(form: Group) -> Shown:
    """Put a form on the page that is being made, and return its fields."""
    shown: Shown = []
    for part in form.parts:
        _show(part, shown)
    return shown


def problem_html(text: str) -> str:
    """Return what stands below a field that holds something wrong."""
    import html

    return f'<div class="oe-problem" role="alert">{html.escape(text)}</div>' if text else ""


def value_of(leaf: Leaf, value: Any) -> Any:
    """Return what a component holds for a value of its field."""
    if leaf.kind == "text" or leaf.kind == "json":
        return "" if value is None else value
    if leaf.kind in ("choices", "bits"):
        return list(value or ())
    return value


def _show(part: Part, shown: Shown) -> None:
    if isinstance(part, Leaf):
        if part.kind != "fixed":
            shown.append(_field(part))
    elif isinstance(part, Group):
        with gradio.Group(elem_classes="oe-group"):
            gradio.Markdown(f"**{part.label}** {part.help}", elem_classes="oe-group-label")
            row = part.names is None and all(isinstance(each, Leaf) for each in part.parts)
            with gradio.Row() if row else gradio.Column():
                for each in part.parts:
                    with gradio.Column(min_width=110):
                        _show(each, shown)
    else:
        _show_union(part, shown)


def _show_union(part: Union, shown: Shown) -> None:
    selector = _field(part.selector)
    shown.append(selector)
    columns = []
    for number, option in enumerate(part.options):
        with gradio.Column(visible=number == 0) as column:
            _show(option, shown)
        columns.append(column)

    def choose(number: int) -> Any:
        shown = [gradio.update(visible=i == number) for i in range(len(columns))]
        return shown if len(shown) > 1 else shown[0]

    selector.widget.change(choose, selector.widget, columns, queue=False, show_progress="hidden")


def _field(leaf: Leaf) -> Field:
    with gradio.Column(elem_classes="oe-field", min_width=110):
        widget = _WIDGETS[leaf.kind](leaf)
        problem = gradio.HTML("", elem_classes="oe-problem-slot")
    return Field(leaf, widget, problem)


def _about(leaf: Leaf) -> dict[str, Any]:
    said = [leaf.help] if leaf.help else []
    if bounds := bounds_of(leaf):
        said.append(bounds)
    if leaf.optional:
        said.append("optional")
    name = "".join(each if each.isalnum() else "-" for each in leaf.key)
    return {
        "label": leaf.label,
        "info": "; ".join(said) or None,
        "elem_id": f"oe-{name}",
        "interactive": True,
    }


def _choice(leaf: Leaf) -> Any:
    labels = [label for label, _ in leaf.choices]
    chosen = leaf.default
    if chosen is None and not leaf.optional and leaf.choices:
        chosen = leaf.choices[0][1]
    few = len(labels) <= _MAX_RADIO and all(len(label) <= _MAX_LABEL for label in labels)
    if few:
        return gradio.Radio(choices=list(leaf.choices), value=chosen, **_about(leaf))
    return gradio.Dropdown(
        choices=list(leaf.choices), value=chosen, filterable=True, **_about(leaf)
    )


def _flag(leaf: Leaf) -> Any:
    return gradio.Checkbox(value=bool(leaf.default), **_about(leaf))


def _number(leaf: Leaf) -> Any:
    # Not a Slider, nor with bounds of its own: they would bend what is typed without a word.
    start = leaf.default
    if start is None and not leaf.optional:
        start = 0 if (leaf.low or 0) <= 0 <= (leaf.high or 0) else leaf.low
    text = "" if start is None else f"{start:g}"
    return gradio.Textbox(value=text, **_about(leaf))


def _text(leaf: Leaf) -> Any:
    start = leaf.default if isinstance(leaf.default, str) else ""
    return gradio.Textbox(value=start, lines=leaf.lines, max_lines=12, **_about(leaf))


def _several(leaf: Leaf) -> Any:
    start = leaf.default if isinstance(leaf.default, list) else []
    return gradio.CheckboxGroup(choices=list(leaf.choices), value=start, **_about(leaf))


def _json(leaf: Leaf) -> Any:
    about = _about(leaf)
    about["info"] = "; ".join(filter(None, (about["info"], "JSON", _size_of(leaf))))
    start = "" if leaf.default is None else json.dumps(leaf.default)
    if not start and not leaf.optional:
        start = json.dumps(_example(leaf.schema))
    return gradio.Textbox(value=start, lines=leaf.lines, max_lines=12, **about)


def _size_of(leaf: Leaf) -> str:
    shape = leaf.schema.get("shape")
    return f"of shape {'x'.join(map(str, shape))}" if shape else ""


def _example(schema: Any, depth: int = 0) -> Any:
    """Return something of the form of a schema, to begin with."""
    kind = schema.get("type") if hasattr(schema, "get") else None
    if kind == "array":
        size = min(schema.get("minItems") or 0, 512)
        return [_example(schema.get("items") or {}, depth + 1) for _ in range(size)]
    if kind in ("integer", "number"):
        return schema.get("minimum", 0) or 0
    return {"object": {}, "string": "", "boolean": False}.get(str(kind))


_WIDGETS: dict[str, Callable[[Leaf], Any]] = {
    "choice": _choice,
    "flag": _flag,
    "integer": _number,
    "number": _number,
    "text": _text,
    "choices": _several,
    "bits": _several,
    "json": _json,
}
