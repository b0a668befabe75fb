"""Fields as Gradio shows them: one component each, and a line for what is wrong with it."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gradio

from openenv_gym.web.filled import EMPTY, bounds_of, first_of, number_text
from openenv_gym.web.parts import Group, Leaf, Part, Union


__all__ = ["Field", "Shown", "held_of", "problem_html", "said_html", "show_form", "value_of"]

# What components hold for no choice, and for a set with nothing in it; all else is a number.
_NOTHING = "nothing"
_EMPTY_SET = "empty"
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
    return f'<div class="oe-problem" role="alert">{html.escape(text)}</div>' if text else ""


def said_html(said: str, name: str = "") -> str:
    """Return what an environment says, which is text whatever stands in it, below a name."""
    head = f"<b>{html.escape(name)}</b> " if name else ""
    paragraphs = re.split(r"\n\s*\n", html.escape(said.strip()))
    return f'<div class="oe-said"><p>{head}{"</p><p>".join(paragraphs)}</p></div>'


def value_of(leaf: Leaf, value: Any) -> Any:
    """Return what a component holds for what stands in its field.

    What is chosen has a number there, as text: a browser makes floats of large whole numbers.
    """
    if leaf.kind == "choice":
        return _number_of(leaf, value)
    if leaf.kind in ("choices", "bits"):
        return [_EMPTY_SET if each is EMPTY else _number_of(leaf, each) for each in value or ()]
    if leaf.kind == "flag":
        return bool(value)
    if value is None:
        return ""
    return number_text(value) if leaf.kind in ("integer", "number") else value


def held_of(leaf: Leaf, value: Any) -> Any:
    """Return what stands in a field whose component holds a value."""
    if leaf.kind == "choice":
        return None if value in (None, _NOTHING) else leaf.values[int(value)]
    if leaf.kind in ("choices", "bits"):
        return [EMPTY if each == _EMPTY_SET else leaf.values[int(each)] for each in value or ()]
    return value


def _number_of(leaf: Leaf, value: Any) -> str | None:
    for number, each in enumerate(leaf.values):
        if each == value and isinstance(each, bool) == isinstance(value, bool):
            return str(number)
    return _NOTHING if leaf.voidable else None


def _choices_of(leaf: Leaf) -> list[tuple[str, str]]:
    return [(label, str(number)) for number, (label, _) in enumerate(leaf.choices)]


def _show(part: Part, shown: Shown) -> None:
    if isinstance(part, Leaf):
        if part.kind != "fixed":
            shown.append(_field(part))
    elif isinstance(part, Group):
        with gradio.Group(elem_classes="oe-group"):
            gradio.HTML(said_html(part.help, part.label), elem_classes="oe-group-label")
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
        with gradio.Column(visible=number == part.selector.default) as column:
            _show(option, shown)
        columns.append(column)

    def choose(value: str | None) -> Any:
        number = held_of(part.selector, value)
        shown = [gradio.update(visible=i == number) for i in range(len(columns))]
        return shown if len(shown) > 1 else shown[0]

    selector.widget.change(choose, selector.widget, columns, queue=False, show_progress="hidden")


def _field(leaf: Leaf) -> Field:
    with gradio.Column(elem_classes="oe-field", min_width=110):
        widget = _WIDGETS[leaf.kind](leaf)
        if said := _said_of(leaf):
            gradio.HTML(said_html(said), elem_classes="oe-about")
        problem = gradio.HTML("", elem_classes="oe-problem-slot")
    return Field(leaf, widget, problem)


def _said_of(leaf: Leaf) -> str:
    """Return what is said of a field; not as Gradio's `info`, which is Markdown."""
    json_ = ("JSON", _size_of(leaf)) if leaf.kind == "json" else ()
    optional = "optional" if leaf.optional else ""
    return "; ".join(filter(None, (leaf.help, bounds_of(leaf), optional, *json_)))


def _about(leaf: Leaf) -> dict[str, Any]:
    name = "".join(each if each.isalnum() else "-" for each in leaf.key)
    return {
        "label": leaf.label,
        "elem_id": f"oe-{name}",
        "interactive": True,
    }


def _choice(leaf: Leaf) -> Any:
    choices = _choices_of(leaf)
    if leaf.voidable:
        choices.append(("(nothing)", _NOTHING))
    about = {"choices": choices, "value": value_of(leaf, first_of(leaf)), **_about(leaf)}
    if len(choices) <= _MAX_RADIO and all(len(label) <= _MAX_LABEL for label, _ in choices):
        return gradio.Radio(**about)
    return gradio.Dropdown(filterable=True, **about)


def _flag(leaf: Leaf) -> Any:
    return gradio.Checkbox(value=value_of(leaf, first_of(leaf)), **_about(leaf))


def _number(leaf: Leaf) -> Any:
    # Not a Slider, nor with bounds of its own: they would bend what is typed without a word.
    return gradio.Textbox(value=value_of(leaf, first_of(leaf)), **_about(leaf))


def _text(leaf: Leaf) -> Any:
    start = value_of(leaf, first_of(leaf))
    return gradio.Textbox(value=start, lines=leaf.lines, max_lines=12, **_about(leaf))


def _several(leaf: Leaf) -> Any:
    choices = _choices_of(leaf)
    if leaf.voidable:  # no tick means that none is given
        choices.append(("(empty)", _EMPTY_SET))
    start = value_of(leaf, first_of(leaf))
    return gradio.CheckboxGroup(choices=choices, value=start, **_about(leaf))


def _size_of(leaf: Leaf) -> str:
    shape = leaf.schema.get("shape")
    return f"of shape {'x'.join(map(str, shape))}" if shape else ""


_WIDGETS: dict[str, Callable[[Leaf], Any]] = {
    "choice": _choice,
    "flag": _flag,
    "integer": _number,
    "number": _number,
    "text": _text,
    "choices": _several,
    "bits": _several,
    "json": _text,
}
