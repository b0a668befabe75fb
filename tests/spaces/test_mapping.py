"""The way of values through a mapping: model to sample to model."""

# No `from __future__ import annotations`: Pydantic needs the annotations themselves.

import gc
import weakref
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from gymnasium import spaces as gs
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    create_model,
    field_validator,
)

from openenv_gym.errors import InvalidActionError, SpaceError
from openenv_gym.models import Action, Array
from openenv_gym.spaces import ModelMapping

from .compare import assert_identical
from .models import Colour, Everything, Level, Pose, one
from .strategies import seeds


# Gymnasium's Sequence takes the elements of a stack of numbers for Python's numbers.
@pytest.mark.filterwarnings("ignore:.*Casting input x")
@pytest.mark.parametrize(
    ("annotation", "info", "value", "sample"),
    [
        (bool, ..., True, np.int64(1)),
        (int, Field(ge=-2, le=4), -2, np.int64(-2)),
        (int, ..., 5, np.array(5, np.int64)),
        (float, ..., 0.5, np.array(0.5)),
        (Literal["a", "b"], ..., "b", np.int64(1)),
        (Literal[1, True], ..., True, np.int64(1)),
        (Literal[1, True], ..., 1, np.int64(0)),
        (Colour, ..., Colour.CRIMSON, np.int64(0)),
        (Level, ..., Level.HIGH, np.int64(1)),
        (str, ..., "hello", "hello"),
        (Pose, ..., Pose(x=0.25, turned=True), {"x": np.array(0.25), "turned": np.int64(1)}),
        (Annotated[int, gs.Discrete(5)], ..., 3, np.int64(3)),
        (Annotated[bool, gs.Discrete(2)], ..., True, np.int64(1)),
        (Annotated[float, gs.Box(0, 1, (), np.float32)], ..., 0.5, np.array(0.5, np.float32)),
        (
            Annotated[dict, gs.Dict({"x": gs.Discrete(2)})],
            ...,
            {"x": np.int64(1)},
            {"x": np.int64(1)},
        ),
        (Literal["a"] | None, ..., None, np.int64(1)),
        (list[float], ..., [0.5, 2.0], np.array([0.5, 2.0])),
        (list[float], ..., [], np.array([])),
        (list[bool], Field(min_length=2, max_length=2), [True, False], np.array([1, 0], np.int8)),
        (list[Colour], ..., [Colour.GREEN, Colour.RED], np.array([1, 0])),
        (list[str], ..., ["a", "b"], ("a", "b")),
        (tuple[bool, str], ..., (True, "a"), (np.int64(1), "a")),
        (set[Colour], ..., {Colour.GREEN}, np.array([0, 1], np.int8)),
        (dict[str, bool], ..., {"a": True}, (("a", np.int64(1)),)),
        (
            dict[Colour, bool],
            Field(min_length=2),
            {Colour.GREEN: True, Colour.RED: False},
            {"RED": np.int64(0), "GREEN": np.int64(1)},
        ),
        (float | None, ..., None, (np.int64(1), np.int64(0))),
        (float | None, ..., 0.5, (np.int64(0), np.array(0.5))),
        (int | str, ..., "a", (np.int64(1), "a")),
        (RootModel[Colour], ..., RootModel[Colour](Colour.GREEN), np.int64(1)),
    ],
)
def test_values_become_samples_and_come_back(
    annotation: Any, info: Any, value: Any, sample: Any
) -> None:
    mapping = one(annotation, info)
    got = mapping.to_sample(mapping.model(field=value))
    assert_identical(got, sample)
    assert got in mapping.space
    back = mapping.to_model(got).field
    assert type(back) is type(value) and back == value


def test_arrays_pass_through_uncopied() -> None:
    screen = np.zeros((4, 4), np.uint8)
    mapping = one(Annotated[np.ndarray, Array((4, 4), "uint8")])
    action = mapping.model(field=screen)
    assert mapping.to_sample(action) is screen
    assert mapping.to_model(screen).field is screen


def test_labels_that_the_model_keeps_as_values() -> None:
    class Plain(Action):
        model_config = ConfigDict(use_enum_values=True)
        colour: Colour

    mapping = ModelMapping.of(Plain)
    assert_identical(mapping.to_sample(Plain(colour="g")), np.int64(1))
    assert mapping.to_model(1).colour == "g"


def test_root_models_are_their_root() -> None:
    mapping = ModelMapping.of(RootModel[Colour])
    assert mapping.space == gs.Discrete(2)
    assert mapping.to_model(1).root is Colour.GREEN
    assert_identical(mapping.to_sample(RootModel[Colour](Colour.GREEN)), np.int64(1))


@pytest.mark.parametrize("by_name", [False, True])
def test_aliases_change_nothing(by_name: bool) -> None:
    class Aliased(Action):
        model_config = ConfigDict(populate_by_name=by_name)
        first: int = Field(ge=0, le=3, alias="1st")
        second: bool = Field(validation_alias="2nd")

    mapping = ModelMapping.of(Aliased)
    assert mapping.space == gs.Dict({"first": gs.Discrete(4), "second": gs.Discrete(2)})
    action = mapping.to_model({"first": 2, "second": 1})
    assert (action.first, action.second) == (2, True)


def test_a_field_filled_from_a_path_is_refused() -> None:
    with pytest.raises(SpaceError, match="path inside other data"):
        one(bool, Field(validation_alias=AliasPath("a", 0)))


@settings(max_examples=50, deadline=None)
@given(seed=seeds)
def test_every_sample_becomes_a_model_and_that_sample_again(seed: int) -> None:
    mapping = ModelMapping.of(Everything)
    mapping.space.seed(seed)
    sample = mapping.space.sample()
    action = mapping.to_model(sample)
    assert type(action) is Everything
    again = mapping.to_sample(action)
    assert again in mapping.space
    assert list(again) == list(sample)
    for key in sample:  # an integer Box of shape () samples a scalar instead of an array
        expected = np.asarray(sample[key]) if key == "number" else sample[key]
        assert_identical(again[key], expected, key)


GOOD = ModelMapping.of(Everything).to_sample(Everything())


@pytest.mark.parametrize(
    ("annotation", "sample", "field"),
    [
        (list[str], ("a", 5), "field[1]"),
        (list[str], ["a"], "field"),
        (list[Pose], ({"x": np.array(0.0), "turned": 7},), "field[0].turned"),
        (list[list[str]], (("a",), ("b", 5)), "field[1][1]"),
        (list[float], np.zeros((2, 2)), "field"),
        (list[float], np.array([np.nan]), "field"),
        (list[float], "abc", "field"),
        (list[Colour], np.array([0, 2]), "field"),
        (tuple[bool, str], (1, 5), "field[1]"),
        (tuple[bool, str], (1,), "field"),
        (set[Colour], np.array([0, 2], np.int8), "field"),
        (dict[str, bool], (("a", 7),), "field[0][1]"),
        (dict[str, bool], {"a": 1}, "field"),
        (int | None, 3, "field"),
        (int | None, (2, 0), "field[0]"),
        (int | None, (0, "x"), "field[0]"),
        (Pose | None, (0, {"x": np.array(0.0), "turned": 7}), "field[0].turned"),
    ],
)
def test_where_a_sample_is_wrong_is_named(annotation: Any, sample: Any, field: str) -> None:
    with pytest.raises(InvalidActionError) as caught:
        one(annotation).to_model(sample)
    assert caught.value.field == field
    assert caught.value.message.startswith(field)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"flag": 2}, "flag"),
        ({"count": 0}, "count"),
        ({"count": 6}, "count"),
        ({"count": 2.0}, "count"),
        ({"number": 2**63}, "number"),
        ({"number": "3"}, "number"),
        ({"share": np.array(1.5)}, "share"),
        ({"share": np.array([0.5])}, "share"),
        ({"word": 2}, "word"),
        ({"word": "a"}, "word"),
        ({"colour": -1}, "colour"),
        ({"text": "toolong"}, "text"),
        ({"text": "é"}, "text"),
        ({"vector": np.zeros(2)}, "vector"),
        ({"vector": np.array([0, 2], np.float32)}, "vector"),
        ({"vector": np.array([0, np.nan], np.float32)}, "vector"),
        ({"pose": {"x": np.array(2.0), "turned": 0}}, "pose.x"),
        ({"pose": {"x": np.array(0.0)}}, "pose"),
        ({"pose": None}, "pose"),
        ({"key": 1}, "key"),
        ({"keys": np.array([0, 2], np.int8)}, "keys"),
        ({"more": 1}, "action"),
    ],
)
def test_samples_outside_are_refused_with_the_field_named(
    change: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidActionError) as caught:
        ModelMapping.of(Everything).to_model({**GOOD, **change})
    assert caught.value.field == field
    assert caught.value.message.startswith(field)


def test_what_no_space_can_say_is_checked_by_the_model() -> None:
    class Even(Action):
        pair: int = Field(ge=0, le=10, multiple_of=2)
        pose: Pose = Pose()

        @field_validator("pose")
        @classmethod
        def _no_turn(cls, pose: Pose) -> Pose:
            if pose.turned:
                raise ValueError("no turning")
            return pose

    mapping = ModelMapping.of(Even)
    pose = {"x": np.array(0.0), "turned": 0}
    assert mapping.to_model({"pair": 4, "pose": pose}).pair == 4
    with pytest.raises(InvalidActionError, match="multiple of 2") as caught:
        mapping.to_model({"pair": 3, "pose": pose})
    assert caught.value.field == "pair"
    with pytest.raises(InvalidActionError, match="no turning"):
        mapping.to_model({"pair": 4, "pose": {**pose, "turned": 1}})


@settings(max_examples=50, deadline=None)
@given(
    sample=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(list(Everything.model_fields)), inner)
        ),
    )
)
def test_anything_else_is_refused_as_an_action(sample: Any) -> None:
    with pytest.raises(InvalidActionError):
        ModelMapping.of(Everything).to_model(sample)


def test_an_option_of_a_union_is_checked_by_its_own_model() -> None:
    class Even(BaseModel):
        pair: int = Field(ge=0, le=10, multiple_of=2)

    with pytest.raises(InvalidActionError, match="multiple of 2") as caught:
        one(Even | Pose).to_model((0, {"pair": 3}))
    assert caught.value.field == "field[0].pair"


class Left(BaseModel):
    steps: int = Field(ge=0, le=3)


class Right(BaseModel):
    steps: int = Field(ge=0, le=3)


class Further(Right):
    pass


def test_models_with_the_same_fields_stay_apart() -> None:
    mapping = one(Left | Right)
    assert_identical(
        mapping.to_sample(mapping.model(field=Right(steps=2))),
        (np.int64(1), {"steps": np.int64(2)}),
    )
    assert type(mapping.to_model((1, {"steps": 2})).field) is Right
    # What derives from an option is one of it.
    assert mapping.to_sample(mapping.model(field=Further(steps=2)))[0] == 1


def test_a_value_of_no_type_of_a_union_is_named() -> None:
    mapping = one(int | None)
    with pytest.raises(ValueError, match="field is 'x' .str., which none of its types takes"):
        mapping.to_sample(mapping.model.model_construct(field="x"))


def test_actions_inside_actions_leave_their_base_fields_out() -> None:
    class Step(Action):
        left: bool

    mapping = one(list[Step])
    assert mapping.space == gs.Sequence(gs.Dict({"left": gs.Discrete(2)}))
    assert mapping.to_model(({"left": 1},)).field == [Step(left=True)]


# -- the cache --------------------------------------------------------------------------------


def test_a_mapping_is_made_once() -> None:
    assert ModelMapping.of(Everything) is ModelMapping.of(Everything)
    assert ModelMapping.of(Pose) is not ModelMapping.of(Pose, exclude=frozenset({"x"}))


def test_models_made_at_run_time_do_not_pile_up() -> None:
    first = weakref.ref(create_model("Made", __base__=Action, n=(bool, ...)))
    model = create_model("Made", __base__=Action, n=(bool, ...))
    ModelMapping.of(model)
    alive = weakref.ref(model)
    del model
    for _ in range(300):
        ModelMapping.of(create_model("Other", n=(bool, ...)))
    gc.collect()
    assert first() is None
    assert alive() is None


def test_it_shows_what_it_maps() -> None:
    model = create_model("Move", __base__=Action, n=(int, Field(ge=0, le=3)))
    assert repr(ModelMapping.of(model)) == "ModelMapping(Move <-> Discrete(4))"
