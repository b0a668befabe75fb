"""Forms are made of what an environment says of its actions, and give actions that it takes."""

from __future__ import annotations

import enum
import json
from typing import Annotated, Any, Literal

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from pydantic import BaseModel, Field

from openenv_gym import errors
from openenv_gym.models import Action
from openenv_gym.spaces import ModelMapping, model_from_space
from openenv_gym.web.filled import read_form, state_of
from openenv_gym.web.forms import form_of
from openenv_gym.web.keyboard import keys_of
from openenv_gym.web.kinds import kinds_of, problems_of
from openenv_gym.web.parts import Group, leaves


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Inner(BaseModel):
    """A part."""

    left: float = Field(0.5, ge=0, le=1)
    name: str


class Left(BaseModel):
    kind: Literal["left"] = "left"
    by: int = Field(1, ge=0, le=9)


class Right(BaseModel):
    kind: Literal["right"] = "right"
    text: str


class EverythingAction(Action):
    number: int
    small: int = Field(ge=1, le=5)
    bounded: float = Field(gt=-1, lt=1)
    flag: bool
    word: str = Field(max_length=20)
    colour: Colour
    way: Literal["up", "down"]
    colours: set[Colour]
    pair: Annotated[list[int], Field(min_length=2, max_length=2)]
    many: list[float]
    mixed: tuple[int, str]
    inner: Inner
    either: Left | Right
    maybe: int | None = None


def kinds(model: type[BaseModel]) -> dict[str, str]:
    return {leaf.key: leaf.kind for leaf in leaves(form_of(model.model_json_schema()))}


def test_each_type_of_field_has_its_own_kind() -> None:
    assert kinds(EverythingAction) == {
        "number": "integer",
        "small": "choice",
        "bounded": "number",
        "flag": "flag",
        "word": "text",
        "colour": "choice",
        "way": "choice",
        "colours": "choices",
        "pair.0": "integer",
        "pair.1": "integer",
        "many": "json",
        "mixed.0": "integer",
        "mixed.1": "text",
        "inner.left": "number",
        "inner.name": "text",
        "either?": "choice",
        "either|0.by": "choice",
        "either|1.text": "text",
        "maybe": "integer",
    }


def test_what_is_filled_in_is_an_action_of_the_model() -> None:
    form = form_of(EverythingAction.model_json_schema())
    action, problems = read_form(
        form,
        {
            "number": "7",
            "small": 3,
            "bounded": "-0.25",
            "flag": True,
            "word": "word",
            "colour": "blue",
            "way": "down",
            "colours": ["red"],
            "pair.0": "1",
            "pair.1": "2",
            "many": "[1, 2.5]",
            "mixed.0": "4",
            "mixed.1": "four",
            "inner.left": "0.1",
            "inner.name": "n",
            "either?": 1,
            "either|1.text": "t",
            "maybe": "",
        },
    )
    assert problems == {}
    read = EverythingAction.model_validate(action)
    assert read.colours == {Colour.RED} and read.either == Right(text="t") and read.maybe is None
    assert (read.mixed, read.inner.left, read.many) == ((4, "four"), 0.1, [1, 2.5])


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3),
        spaces.Discrete(500, start=-2),
        spaces.Box(-1, 1, (2,)),
        spaces.Box(0, 255, (8, 8, 3), np.uint8),
        spaces.Box(-np.inf, np.inf, (), np.float64),
        spaces.MultiBinary(4),
        spaces.MultiDiscrete([3, 2, 5]),
        spaces.Text(10),
        spaces.Dict(a=spaces.Discrete(2), b=spaces.Dict(c=spaces.Box(0, 1, (1,)))),
        spaces.Tuple((spaces.Discrete(2), spaces.Text(3))),
        spaces.Sequence(spaces.Discrete(3)),
        spaces.OneOf((spaces.Discrete(3), spaces.Box(0, 1, (2,)))),
        spaces.Graph(spaces.Box(0, 1, (2,)), None),
    ],
    ids=lambda space: type(space).__name__,
)
def test_a_sample_of_each_space_can_be_filled_in(space: gymnasium.Space[Any]) -> None:
    model = model_from_space(space, Action, "action")
    mapping = ModelMapping.of(model)
    form = form_of(model.model_json_schema())
    space.seed(3)
    for _ in range(5):
        said = json.loads(mapping.to_model(space.sample()).model_dump_json(exclude={"metadata"}))
        held = state_of(form, said)
        for leaf in leaves(form):  # as who types numbers has them
            if leaf.kind in ("integer", "number") and leaf.key in held:
                held[leaf.key] = str(held[leaf.key])
        action, problems = read_form(form, held)
        assert problems == {}
        assert action == said


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("number", "x", "'x' is no number."),
        ("number", "1.5", "1.5 is no whole number."),
        ("number", "", "A value is needed."),
        ("bounded", "3", "3 is not from -1 to 1."),
        ("bounded", "nan", "'nan' is no finite number."),
        ("many", "[1,", "This is no JSON"),
        ("small", None, "Choose one."),
    ],
)
def test_what_is_wrong_is_told_by_field(field: str, value: Any, says: str) -> None:
    form = form_of(EverythingAction.model_json_schema())
    _, problems = read_form(form, {**_empty(form), field: value})
    assert says in problems[field]


def test_what_the_server_refuses_is_told_at_its_field() -> None:
    kind = kinds_of({"actions": [{"name": "A", "schema": EverythingAction.model_json_schema()}]})[0]
    listed = [
        {"loc": ["inner", "left"], "msg": "too much"},
        {"loc": ["pair", 1], "msg": "odd"},
        {"loc": ["either", "right", "text"], "msg": "rude"},
        {"loc": [], "msg": "as a whole"},
    ]
    error = errors.InvalidActionError("no", field="inner", data={"errors": listed})
    problems, rest = problems_of(kind, error)
    assert problems == {"inner.left": "too much", "pair.1": "odd", "either?": "rude"}
    assert rest == "as a whole"


def test_a_tool_is_a_kind_of_action() -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    call = {"name": "CallToolAction", "schema": {"type": "object", "properties": {}}}
    tools = [{"name": "say", "description": "Says.", "input_schema": schema}]
    (kind,) = kinds_of({"actions": [call], "tools": tools})
    values, problems = read_form(kind.form, {"text": "hi"})
    assert not problems
    assert kind.action_of(values) == {
        "type": "call_tool",
        "tool_name": "say",
        "arguments": {"text": "hi"},
    }


def test_keys_make_the_actions_that_their_labels_name() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 3}},
    }
    form = form_of(schema, {"a": ["NOOP", "FIRE", "UPRIGHT", "LEFTFIRE"]})
    keys = keys_of(form)
    assert keys is not None
    assert keys["names"] == {"fire": 1, "right+up": 2, "fire+left": 3}
    assert (keys["nothing"], keys["digits"], keys["field"]) == (0, [0, 1, 2, 3], "a")
    assert keys_of(form_of(EverythingAction.model_json_schema())) is None


def _empty(form: Group) -> dict[str, Any]:
    return {leaf.key: None for leaf in leaves(form)}
