"""Models from spaces, and samples as JSON."""

# No `from __future__ import annotations`: Pydantic needs the annotations themselves.

import json
import pickle
from typing import Annotated, Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as gs
from hypothesis import HealthCheck, given, settings
from pydantic import BaseModel, ValidationError

from openenv_gym.errors import InvalidActionError, SpaceError
from openenv_gym.models import Action, Observation
from openenv_gym.spaces import (
    ModelMapping,
    Sample,
    json_schema,
    model_from_space,
    sample_from_json,
    sample_to_json,
)

from .compare import assert_identical
from .corpus import SPACES, UNSAMPLED
from .strategies import seeds, spaces


# Gymnasium's Graph and Sequence take elements of a stack for Python's numbers.
pytestmark = pytest.mark.filterwarnings("ignore:.*Casting input x")

thorough = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))

SAMPLED = sorted(SPACES.keys() - UNSAMPLED)


def check_round_trip(space: gymnasium.Space[Any], seed: int) -> None:
    model = model_from_space(space, Action, "action")
    mapping = ModelMapping.of(model)
    assert mapping.space is space
    space.seed(seed)
    sample = space.sample()
    instance = mapping.to_model(sample)
    kept = mapping.to_sample(instance)
    assert_identical(sample_to_json(space, kept), sample_to_json(space, sample))
    text = instance.model_dump_json()
    assert json.loads(text)["metadata"] == {}
    again = mapping.to_sample(model.model_validate_json(text))
    assert space.contains(again)
    assert_identical(sample_to_json(space, again), sample_to_json(space, sample))
    from_data = mapping.to_sample(model.model_validate(json.loads(text)))
    assert_identical(sample_to_json(space, from_data), sample_to_json(space, sample))


@thorough
@given(space=spaces(), seed=seeds)
def test_a_sample_comes_back_from_json(space: gymnasium.Space[Any], seed: int) -> None:
    check_round_trip(space, seed)


@pytest.mark.parametrize("name", SAMPLED)
def test_a_sample_of_every_class_of_spaces_comes_back_from_json(name: str) -> None:
    check_round_trip(SPACES[name], 3)


@thorough
@given(space=spaces(), seed=seeds)
def test_json_gives_samples_to_the_bit(space: gymnasium.Space[Any], seed: int) -> None:
    space.seed(seed)
    sample = space.sample()
    data = json.loads(json.dumps(sample_to_json(space, sample)))
    assert space.contains(sample_from_json(space, data))
    schema = json_schema(space)
    assert json.loads(json.dumps(schema, allow_nan=False)) == schema


@pytest.mark.parametrize(
    ("space", "sample", "data"),
    [
        (gs.Discrete(3, start=-1), np.int64(-1), -1),
        (gs.Discrete(3, dtype=np.int8), np.int8(2), 2),
        (gs.Box(0, 1, (2,)), np.array([0, 0.5], np.float32), [0.0, 0.5]),
        (gs.Box(0, 1, (), np.float64), np.array(0.25), 0.25),
        (gs.MultiBinary(3), np.array([0, 1, 1], np.int8), [0, 1, 1]),
        (gs.MultiDiscrete([3, 4]), np.array([2, 3]), [2, 3]),
        (gs.Text(5), "abc", "abc"),
        (gs.Dict({"a": gs.Discrete(2)}), {"a": np.int64(1)}, {"a": 1}),
        (gs.Dict({3: gs.Discrete(2)}), {3: np.int64(1)}, {"3": 1}),
        (
            gs.Tuple([gs.Discrete(2), gs.Text(3)]),
            (np.int64(1), "a"),
            [1, "a"],
        ),
        (
            gs.OneOf([gs.Discrete(2), gs.Text(3)]),
            (np.int64(1), "a"),
            {"index": 1, "value": "a"},
        ),
        (gs.Sequence(gs.Discrete(9)), (np.int64(1), np.int64(2)), [1, 2]),
        (gs.Sequence(gs.Discrete(9), stack=True), np.array([1, 2]), [1, 2]),
        (gs.Sequence(gs.Discrete(9), stack=True), np.array([], np.int64), []),
        (
            gs.Sequence(gs.Dict({"a": gs.Discrete(9)}), stack=True),
            {"a": np.array([1, 2])},
            [{"a": 1}, {"a": 2}],
        ),
        (
            gs.Sequence(gs.Tuple([gs.Discrete(9), gs.Text(3)]), stack=True),
            (np.array([1, 2]), ("a", "b")),
            [[1, "a"], [2, "b"]],
        ),
        (
            gs.Graph(gs.Discrete(9), gs.Discrete(9)),
            gs.GraphInstance(np.array([1, 2]), np.array([3]), np.array([[0, 1]], np.int32)),
            {"nodes": [1, 2], "edges": [3], "edge_links": [[0, 1]]},
        ),
        (
            gs.Graph(gs.Discrete(9), None),
            gs.GraphInstance(np.array([1, 2]), None, None),
            {"nodes": [1, 2], "edges": None, "edge_links": None},
        ),
    ],
)
def test_the_json_form_of_a_sample(space: gymnasium.Space[Any], sample: Any, data: Any) -> None:
    assert space.contains(sample)
    assert_identical(sample_to_json(space, sample), data)
    assert_identical(sample_from_json(space, data), sample)
    model = model_from_space(gs.Tuple([space]), Action, "action")
    written = model.model_validate({"action": [data]}).model_dump_json()
    assert json.loads(written)["action"] == [data]


@pytest.mark.parametrize(
    ("space", "schema"),
    [
        (gs.Discrete(3, start=-1), {"type": "integer", "minimum": -1, "maximum": 1}),
        (
            gs.Box(0, 1, (2,)),
            {
                "type": "array",
                "items": {"type": "number", "minimum": 0.0, "maximum": 1.0},
                "minItems": 2,
                "maxItems": 2,
                "dtype": "float32",
                "shape": [2],
            },
        ),
        (
            gs.MultiBinary(1),
            {
                "type": "array",
                "items": {"type": "integer", "minimum": 0, "maximum": 1},
                "minItems": 1,
                "maxItems": 1,
                "dtype": "int8",
                "shape": [1],
            },
        ),
        (
            gs.MultiDiscrete([2, 3], start=[5, 4]),
            {
                "type": "array",
                "items": {"type": "integer", "minimum": 4, "maximum": 6},
                "minItems": 2,
                "maxItems": 2,
                "dtype": "int64",
                "shape": [2],
            },
        ),
        (
            gs.Text(5, charset="ba"),
            {"type": "string", "minLength": 1, "maxLength": 5, "charset": "ba"},
        ),
        (
            gs.Tuple([gs.Discrete(2)]),
            {
                "type": "array",
                "prefixItems": [{"type": "integer", "minimum": 0, "maximum": 1}],
                "minItems": 1,
                "maxItems": 1,
            },
        ),
        (
            gs.Sequence(gs.Discrete(2)),
            {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 1}},
        ),
        (
            gs.OneOf([gs.Discrete(1)]),
            {
                "oneOf": [
                    {
                        "type": "object",
                        "properties": {
                            "index": {"const": 0},
                            "value": {"type": "integer", "minimum": 0, "maximum": 0},
                        },
                        "required": ["index", "value"],
                        "additionalProperties": False,
                    }
                ]
            },
        ),
    ],
)
def test_the_schema_of_a_model_is_that_of_the_json_form(
    space: gymnasium.Space[Any], schema: dict[str, Any]
) -> None:
    found = model_from_space(space, Action, "action").model_json_schema()["properties"]["action"]
    found.pop("title", None)
    assert found == schema


# -- fields -------------------------------------------------------------------------------------


def test_a_dict_has_a_field_for_each_key() -> None:
    space = gs.Dict({"position": gs.Box(-1, 1, (2,)), "fuel": gs.Discrete(4)})
    model = model_from_space(space, Observation, "observation")
    assert issubclass(model, Observation)
    assert list(model.model_fields)[-2:] == list(space.spaces)
    seen: Any = model(position=np.zeros(2, np.float32), fuel=3, reward=1.0)
    dumped = json.loads(seen.model_dump_json())
    assert (dumped["position"], dumped["fuel"], dumped["reward"]) == ([0.0, 0.0], 3, 1.0)
    assert ModelMapping.of(model).to_sample(seen).keys() == {"position", "fuel"}


def test_a_dict_with_one_key_stays_a_dict() -> None:
    space = gs.Dict({"fuel": gs.Discrete(4)})
    mapping = ModelMapping.of(model_from_space(space, Action, "action"))
    assert mapping.space is space
    instance: Any = mapping.to_model({"fuel": np.int64(3)})
    assert instance.fuel == 3
    assert_identical(mapping.to_sample(instance), {"fuel": np.int64(3)})


@pytest.mark.parametrize(
    "key",
    ["metadata", "a b", "", "class", "_x", "model_x", "copy", 3, "1st"],
)
def test_a_dict_with_a_key_that_no_field_can_have_is_one_field(key: Any) -> None:
    space = gs.Dict([(key, gs.Discrete(4)), ("fuel", gs.Discrete(2))])
    model = model_from_space(space, Action, "action")
    assert set(model.model_fields) == {"metadata", "action"}
    sample = {key: np.int64(3), "fuel": np.int64(1)}
    instance: Any = model(action={str(key): 3, "fuel": 1})
    assert_identical(instance.action, sample)
    assert json.loads(instance.model_dump_json())["action"] == {str(key): 3, "fuel": 1}


def test_a_base_with_fields_of_its_own_keeps_them_out_of_the_space() -> None:
    class Signed(Action):
        signature: str = ""

    model = model_from_space(gs.Discrete(3), Signed, "action")
    mapping = ModelMapping.of(model)
    assert mapping.space == gs.Discrete(3)
    assert mapping.to_model(np.int64(2)).signature == ""


def test_what_derives_from_such_a_model_is_mapped_as_any_other() -> None:
    class More(model_from_space(gs.Discrete(3), Action, "action")):  # type: ignore[misc]
        loud: bool = False

    assert ModelMapping.of(More).space == gs.Dict(
        {"action": gs.Discrete(3), "loud": gs.Discrete(2)}
    )


# -- what is taken ------------------------------------------------------------------------------


def test_arrays_are_kept_as_they_are() -> None:
    screen = np.zeros((4, 4), np.uint8)
    model = model_from_space(gs.Box(0, 255, (4, 4), np.uint8), Observation, "observation")
    seen: Any = model(observation=screen)
    assert seen.observation is screen


def test_bounds_of_arrays_are_not_looked_at() -> None:
    model = model_from_space(gs.Box(-1, 1, (2,)), Action, "action")
    far = np.array([5, -5], np.float64)
    instance: Any = model(action=far)
    assert instance.action is far
    assert ModelMapping.of(model).to_model(far) == instance
    listed: Any = model(action=[5, -5])
    assert_identical(listed.action, far.astype(np.float32))


@pytest.mark.parametrize(
    ("space", "data", "words"),
    [
        (gs.Discrete(3), 3, "action is 3, expected an integer from 0 to 2"),
        (gs.Discrete(3), 1.5, r"action is 1.5 \(float\), expected an integer"),
        (gs.Discrete(3), "1", "action is '1' .str., expected an integer"),
        (gs.Discrete(3), None, "expected an integer"),
        (gs.Discrete(3), 2**70, "expected an integer"),
        (gs.Box(-1, 1, (2,)), [1, 2, 3], r"expected an array of shape \(2,\)"),
        (gs.Box(-1, 1, (2,)), np.zeros(3), r"has shape \(3,\), expected \(2,\)"),
        (gs.Box(-1, 1, (2,)), ["a", "b"], "expected an array of shape"),
        (gs.Box(0, 255, (1,), np.uint8), [256], "got 256, which uint8 cannot hold"),
        (gs.Box(-1, 1, (2,)), None, "expected numbers of shape"),
        (gs.MultiBinary(2), [0, 2], "is not in MultiBinary"),
        (gs.MultiDiscrete([2, 2]), [0, 2], "is not in MultiDiscrete"),
        (gs.Text(3), "toolong", "has 7 characters, expected 1 to 3"),
        (gs.Tuple([gs.Discrete(2)]), [5], r"action\[0\] is 5"),
        (gs.Tuple([gs.Discrete(2)]), [0, 0], "has 2 elements, expected 1"),
        (gs.OneOf([gs.Discrete(2)]), {"index": 1, "value": 0}, r"action\[0\] is 1"),
        (gs.OneOf([gs.Discrete(2)]), {"index": 0, "value": 7}, r"action\[1\] is 7"),
        (gs.OneOf([gs.Discrete(2)]), 0, "expected a pair"),
        (gs.Sequence(gs.Discrete(2)), [0, 7], r"action\[1\] is 7"),
        (gs.Sequence(gs.Discrete(2), stack=True), [0, 7], r"action\[1\] is 7"),
        (gs.Sequence(gs.Discrete(2), stack=True), [0, "x"], "action"),
        (gs.Graph(gs.Discrete(2), None), {"nodes": [7], "edges": None}, "is not in Graph"),
        (gs.Graph(gs.Discrete(2), None), {"edges": None}, "is not in Graph"),
        (gs.Dict({"a b": gs.Discrete(2)}), {"a b": 7}, r"action\['a b'\] is 7"),
        (gs.Dict({"a b": gs.Discrete(2)}), {"b": 1}, "lacks 'a b'"),
    ],
)
def test_what_is_not_in_the_space_is_refused(
    space: gymnasium.Space[Any], data: Any, words: str
) -> None:
    model = model_from_space(space, Action, "action")
    with pytest.raises(ValidationError, match=words) as caught:
        model.model_validate({"action": data})
    assert caught.value.errors()[0]["loc"] == ("action",)
    with pytest.raises(InvalidActionError, match=words) as refused:
        ModelMapping.of(model).to_model(data)
    assert str(refused.value.field).startswith("action")


def test_the_field_of_a_dict_is_named() -> None:
    model = model_from_space(gs.Dict({"fuel": gs.Discrete(2)}), Action, "action")
    with pytest.raises(ValidationError, match="fuel is 7, expected") as caught:
        model.model_validate({"fuel": 7})
    assert caught.value.errors()[0]["loc"] == ("fuel",)


def test_truth_values_stand_for_bits() -> None:
    assert_identical(sample_from_json(gs.MultiBinary(2), [True, False]), np.array([1, 0], np.int8))


def test_an_observation_that_strays_is_still_written() -> None:
    seen: Any = model_from_space(gs.Discrete(2), Observation, "observation").model_construct(
        observation="strange"
    )
    assert json.loads(seen.model_dump_json())["observation"] == "strange"


class Own(gs.Discrete):
    pass


@pytest.mark.parametrize(
    "space",
    [
        Own(3),
        gs.Dict({"a": Own(3)}),
        gs.Sequence(Own(3)),
        gs.Dict([(3, gs.Discrete(2)), ("3", gs.Discrete(2))]),
    ],
)
def test_a_space_without_a_json_form_is_refused(space: gymnasium.Space[Any]) -> None:
    with pytest.raises(SpaceError):
        model_from_space(space, Action, "action")


# -- fields of other models -----------------------------------------------------------------------


class Keys(BaseModel):
    held: Annotated[np.ndarray, Sample(gs.MultiBinary(2))]
    last: Annotated[np.ndarray, Sample(gs.MultiBinary(2))] | None = None


def test_a_sample_in_a_model_of_ones_own() -> None:
    keys = Keys.model_validate_json('{"held": [0, 1]}')
    assert_identical(keys.held, np.array([0, 1], np.int8))
    assert json.loads(keys.model_dump_json()) == {"held": [0, 1], "last": None}
    assert Keys.model_json_schema()["properties"]["held"]["shape"] == [2]
    mapping = ModelMapping.of(Keys)
    assert mapping.space == gs.Dict(
        {"held": gs.MultiBinary(2), "last": gs.OneOf([gs.MultiBinary(2), gs.Discrete(1)])}
    )
    both = Keys(held=[0, 1], last=[1, 1])
    again = mapping.to_model(mapping.to_sample(both))
    assert again.last is not None and again.last.tolist() == [1, 1]


def test_an_error_about_a_sample_can_be_sent() -> None:
    model = model_from_space(gs.Discrete(2), Action, "action")
    with pytest.raises(InvalidActionError) as caught:
        ModelMapping.of(model).to_model(5)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
