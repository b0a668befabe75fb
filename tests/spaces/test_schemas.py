"""Models of JSON Schemas: what Pydantic wrote comes back, and no schema does harm."""

from __future__ import annotations

import enum
import json
import time
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from gymnasium import spaces
from pydantic import BaseModel, Field, ValidationError

from openenv_gym.errors import SpaceError
from openenv_gym.models import Action, Array, Observation
from openenv_gym.spaces import ModelMapping, model_from_schema


def properties(required: bool = True, **fields: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": fields}
    return {**schema, "required": list(fields)} if required else schema


def space_of(field: dict[str, Any], base: Any = Observation, **more: Any) -> spaces.Space[Any]:
    model = model_from_schema({**properties(it=field), **more}, base, "It")
    return ModelMapping.of(model).space


class Direction(str, enum.Enum):
    UP = "UP"
    DOWN = "DOWN"


class Pose(BaseModel):
    x: int = Field(ge=0, le=9)
    level: float = Field(default=0.0, ge=0.0, lt=1.0)


class Typical(Action):
    direction: Direction
    column: int = Field(ge=0, lt=7)
    force: float = Field(default=0.5, gt=0.0, le=1.0)
    pose: Pose
    kind: Literal["a", "b"]
    shout: bool = False
    name: str = Field(default="", max_length=8, pattern="^[a-z]*$")
    grid: Annotated[np.ndarray, Array((2, 3), "uint8", high=7)]


def test_what_pydantic_wrote_has_the_space_of_the_model_that_it_was_written_of() -> None:
    model = model_from_schema(Typical.model_json_schema(), Action)
    assert model.__name__ == "Typical"
    assert issubclass(model, Action)
    assert ModelMapping.of(model).space == ModelMapping.of(Typical).space


def test_a_sample_becomes_the_json_that_the_server_takes() -> None:
    mapping = ModelMapping.of(model_from_schema(Typical.model_json_schema(), Action))
    space = mapping.space
    space.seed(3)
    sample = {**space.sample(), "name": "abc"}
    sent = mapping.to_model(sample).model_dump_json(by_alias=True, exclude={"metadata"})
    there = Typical.model_validate_json(sent)
    assert ModelMapping.of(Typical).to_sample(there)["column"] == sample["column"]
    assert there.direction is list(Direction)[sample["direction"]]
    np.testing.assert_array_equal(there.grid, sample["grid"])


@pytest.mark.parametrize(
    ("field", "space"),
    [
        ({"type": "boolean"}, spaces.Discrete(2)),
        ({"type": "integer", "minimum": -1, "exclusiveMaximum": 2}, spaces.Discrete(3, start=-1)),
        ({"type": "integer", "exclusiveMinimum": 0.5, "maximum": 3.5}, spaces.Discrete(3, start=1)),
        ({"enum": ["a", "b", 3, None]}, spaces.Discrete(4)),
        ({"const": "a"}, spaces.Discrete(1)),
        ({"allOf": [{"type": "boolean"}]}, spaces.Discrete(2)),
        ({"properties": {"a": {"type": "boolean"}}}, spaces.Dict(a=spaces.Discrete(2))),
        ({"type": "number", "minimum": 0}, spaces.Box(0, np.inf, (), np.float64)),
    ],
)
def test_keywords_of_one_value(field: dict[str, Any], space: spaces.Space[Any]) -> None:
    assert space_of(field) == space


def test_references_are_followed_and_what_stands_beside_them_counts() -> None:
    schema = {
        **properties(
            required=False,
            a={"$ref": "#/$defs/odd~1na%6de", "default": "UP", "description": "where to"},
        ),
        "$defs": {"odd/name": {"enum": ["UP", "DOWN"]}},
    }
    model = model_from_schema(schema, Action, "Move")
    assert ModelMapping.of(model).space == spaces.Discrete(2)
    assert model().a == "UP"
    assert model.model_fields["a"].description == "where to"


def test_nested_lists_of_fixed_sizes_are_an_array() -> None:
    row = {"type": "array", "minItems": 7, "maxItems": 7, "items": {"type": "integer"}}
    space = space_of({"type": "array", "minItems": 6, "maxItems": 6, "items": row})
    assert isinstance(space, spaces.Box)
    assert (space.shape, space.dtype) == ((6, 7), np.int64)


def test_an_observation_without_a_space_for_a_field_goes_without_the_field() -> None:
    class Seen(Observation):
        x: int
        anything: Any = None
        notes: dict[str, Any] = {}

    model = model_from_schema(Seen.model_json_schema(), Observation)
    assert set(model.model_fields) - set(Observation.model_fields) == {"x"}


def test_an_observation_is_not_cut_inside() -> None:
    inner = {"properties": {"a": {"type": "boolean"}, "any": {}}}
    model = model_from_schema(properties(x={"type": "boolean"}, pose=inner), Observation, "It")
    assert "pose" not in model.model_fields


def test_an_action_goes_without_what_it_need_not_say() -> None:
    class Call(Action):
        type: Literal["call"] = "call"
        number: int = Field(ge=0, le=1)
        arguments: dict[str, Any] = {}

    model = model_from_schema(Call.model_json_schema(), Action)
    assert ModelMapping.of(model).space == spaces.Discrete(2)
    sent = model(number=1).model_dump(mode="json", exclude={"metadata"})
    assert Call(**sent).arguments == {}


def test_a_required_part_of_an_action_without_a_space_is_named_with_the_way_out() -> None:
    with pytest.raises(SpaceError, match="arguments.*any content") as caught:
        model_from_schema(properties(arguments={"type": "object"}), Action, "Call")
    assert caught.value.field == "action.arguments"
    assert "action_model=" in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "string"},
        properties(done={"type": "boolean"}, reward={"type": "number"}),
        properties(x={}),
        {"type": "object", "properties": ["x"]},
    ],
)
def test_an_observation_of_nothing_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(SpaceError) as caught:
        model_from_schema(schema, Observation, "It")
    assert caught.value.field == "observation"
    assert "observation_model=" in str(caught.value)


def test_names_that_no_field_can_have_are_read_and_written_all_the_same() -> None:
    names = ["class", "copy", "terminated", "_private", "a-b", "a.b", "model_dump", "é", ""]
    schema = properties(**{name: {"type": "boolean"} for name in names})
    model = model_from_schema(schema, Observation, "It")
    values = dict.fromkeys(names, True)
    seen = model.model_validate(values)
    sample = ModelMapping.of(model).to_sample(seen)
    assert list(sample.values()) == [1] * len(names)
    assert {"class", "copy_", "terminated_", "private", "a_b", "a_b_"} <= set(sample)
    dumped = seen.model_dump(by_alias=True, exclude=set(Observation.model_fields))
    assert dumped == values
    assert not seen.terminated


def test_a_default_of_none_is_taken_though_the_type_does_not_say_so() -> None:
    schema = properties(required=False, x={"type": "string", "default": None})
    schema["properties"]["y"] = {"type": "boolean"}
    model = model_from_schema(schema, Observation, "It")
    if "x" in model.model_fields:
        assert model(y=True).x is None


def deep(levels: int) -> dict[str, Any]:
    node: dict[str, Any] = {"type": "boolean"}
    for _ in range(levels):
        node = {"properties": {"a": node}}
    return node


def laughs(levels: int) -> dict[str, Any]:
    """References that double with each level."""
    found: dict[str, Any] = {"l0": {"type": "boolean"}}
    for level in range(1, levels):
        below = {"$ref": f"#/$defs/l{level - 1}"}
        found[f"l{level}"] = {"properties": {"a": below, "b": below}}
    return found


HOSTILE = {
    "circle": ({"$ref": "#/$defs/a"}, {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}),
    "itself": ({"$ref": "#"}, {}),
    "tree": (
        {"$ref": "#/$defs/t"},
        {"t": {"properties": {"next": {"anyOf": [{"$ref": "#/$defs/t"}, {"type": "null"}]}}}},
    ),
    "nowhere": ({"$ref": "#/$defs/missing"}, {}),
    "elsewhere": ({"$ref": "https://example.org/schema.json"}, {}),
    "a number for a reference": ({"$ref": 3}, {}),
    "deep": (deep(500), {}),
    "doubling": ({"$ref": "#/$defs/l40"}, laughs(41)),
    "long list": (
        {"type": "array", "minItems": 10**12, "maxItems": 10**12, "items": {"type": "number"}},
        {},
    ),
    "lists in objects in lists": (
        {
            "type": "array",
            "minItems": 1000,
            "maxItems": 1000,
            "items": {
                "properties": {
                    "a": {
                        "type": "array",
                        "minItems": 1000,
                        "maxItems": 1000,
                        "items": {"properties": {"b": {"type": "boolean"}}},
                    }
                }
            },
        },
        {},
    ),
    "huge array": ({"type": "number", "dtype": "float64", "shape": [10**6, 10**6]}, {}),
    "negative shape": ({"type": "number", "dtype": "float64", "shape": [-1]}, {}),
    "object dtype": ({"type": "number", "dtype": "object", "shape": []}, {}),
    "empty union": ({"anyOf": []}, {}),
    "empty enum": ({"enum": []}, {}),
    "labels that are none": ({"enum": [{"a": 1}]}, {}),
    "bounds that are none": ({"type": "integer", "minimum": "low"}, {}),
    "bounds that cross": ({"type": "integer", "minimum": 3, "maximum": 1}, {}),
    "lengths that cross": ({"type": "string", "minLength": 3, "maxLength": 1}, {}),
    "negative length": ({"type": "string", "minLength": -1}, {}),
    "unknown type": ({"type": "quaternion"}, {}),
    "type that is none": ({"type": {"a": 1}}, {}),
    "no schema": (3, {}),
    "false": (False, {}),
    "items that are none": ({"type": "array", "items": 3}, {}),
    "too much at once": ({"allOf": [{"type": "boolean"}, {"type": "integer"}]}, {}),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("base", [Action, Observation])
def test_what_is_no_schema_of_a_space_is_told_with_bounded_work(name: str, base: Any) -> None:
    field, defs = HOSTILE[name]
    begin_s = time.process_time()
    with pytest.raises(SpaceError) as caught:
        model_from_schema({**properties(it=field), "$defs": defs}, base, "It")
    assert time.process_time() - begin_s < 10
    assert caught.value.field
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "field",
    [
        {"type": "boolean", "x-note": {"deep": [1]}, "examples": [1], "format": 3},
        {"type": "integer", "minimum": -(10**400), "maximum": 10**400},
        {"type": "number", "minimum": -(10**400), "multipleOf": 0},
        {"type": "string", "maxLength": 10**30},
        {"type": "string", "pattern": "(?<=a)b"},
        {"type": "string", "pattern": "("},
        {"type": "string", "pattern": "(a{1000}){1000}{1000}"},
        {"type": "boolean", "default": {"a": 1}},
    ],
)
def test_what_does_not_matter_does_no_harm(field: dict[str, Any]) -> None:
    space_of(field)


def test_a_schema_of_very_many_parts_is_refused() -> None:
    with pytest.raises(SpaceError, match="more than 4096 parts"):
        model_from_schema(
            properties(**{f"f{n}": {"type": "boolean"} for n in range(5000)}), Observation, "It"
        )


def test_values_are_checked_against_the_schema() -> None:
    model = model_from_schema(Typical.model_json_schema(), Observation)
    with pytest.raises(ValidationError, match="column"):
        model.model_validate({"column": "seven"})


def test_plain_json_is_enough() -> None:
    schema = json.loads(json.dumps(Typical.model_json_schema()))
    assert ModelMapping.of(model_from_schema(schema, Action)).space["direction"].n == 2


@pytest.mark.parametrize(
    "names", [["a b", "a_b"], ["a_b", "a b"], ["copy", "copy_"], ["-", "field"]]
)
def test_names_that_are_alike_are_not_mixed_up(names: list[str]) -> None:
    fields = {name: {"type": "integer", "minimum": i, "maximum": i} for i, name in enumerate(names)}
    mapping = ModelMapping.of(model_from_schema(properties(**fields), Action))
    sent = mapping.to_model(mapping.space.sample()).model_dump(by_alias=True, exclude={"metadata"})
    assert sent == {name: i for i, name in enumerate(names)}
