"""Which space a model has, and the way of samples through it."""

# No `from __future__ import annotations`: models inside functions need the annotations themselves.

import enum
import gc
import string
import weakref
from typing import Annotated, Any, Generic, Literal, NewType, Optional, TypeVar

import annotated_types
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as gs
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import (
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    RootModel,
    StringConstraints,
    conint,
    create_model,
    field_validator,
)

from openenv_gym.errors import InvalidActionError, SpaceError
from openenv_gym.models import Action, Array, Observation
from openenv_gym.spaces import ModelMapping

from .compare import assert_identical, assert_same_space
from .strategies import seeds


INT64 = np.iinfo(np.int64)
STRICT = (annotated_types.Ge(2), annotated_types.Lt(5))
LAX = (annotated_types.Gt(0), annotated_types.Le(9))
Metres = NewType("Metres", float)


class Colour(enum.Enum):
    RED = "r"
    GREEN = "g"
    CRIMSON = "r"  # noqa: PIE796 - another name for RED


class Level(enum.IntEnum):
    LOW = 10
    HIGH = 20


class Nothing(enum.Enum):
    pass


class Marks(enum.Flag):
    A = 1
    B = 2


class Pose(BaseModel):
    x: float = Field(0.0, ge=-1, le=1)
    turned: bool = False


class Everything(Action):
    flag: bool = False
    count: int = Field(3, ge=1, le=5)
    number: int = 7
    share: float = Field(0.5, ge=0, le=1)
    word: Literal["b", "a"] = "a"
    colour: Colour = Colour.RED
    text: str = Field("x", max_length=4)
    vector: Annotated[np.ndarray, Array((2,), "float32", -1, 1)] = Field(
        default_factory=lambda: np.zeros(2, np.float32)
    )
    pose: Pose = Pose()
    key: Annotated[int, gs.Discrete(4, start=2)] = 2
    keys: Annotated[np.ndarray, gs.MultiBinary(2)] = Field(
        default_factory=lambda: np.zeros(2, np.int8)
    )


def one(annotation: Any, info: Any = ...) -> ModelMapping[Any]:
    """The mapping of an action with one field of that type."""
    return ModelMapping.of(create_model("One", __base__=Action, field=(annotation, info)))


# -- which space ------------------------------------------------------------------------------


def box(low: Any, high: Any, dtype: Any, shape: tuple[int, ...] = ()) -> gs.Box:
    return gs.Box(low, high, shape, dtype)


@pytest.mark.parametrize(
    ("annotation", "info", "space"),
    [
        (bool, ..., gs.Discrete(2)),
        (int, Field(ge=0, lt=7), gs.Discrete(7)),
        (int, Field(gt=-3, le=4), gs.Discrete(7, start=-2)),
        (int, Field(ge=5, le=5), gs.Discrete(1, start=5)),
        (conint(ge=1, lt=4), ..., gs.Discrete(3, start=1)),
        (Annotated[int, annotated_types.Interval(ge=1, le=3)], ..., gs.Discrete(3, start=1)),
        (Annotated[(int, *STRICT, *LAX)], ..., gs.Discrete(3, start=2)),
        (Annotated[(int, *LAX, *STRICT)], ..., gs.Discrete(3, start=2)),
        (int, ..., box(-np.inf, np.inf, np.int64)),
        (int, Field(ge=0), box(0, np.inf, np.int64)),
        (PositiveInt, ..., box(1, np.inf, np.int64)),
        (int, Field(le=3), box(-np.inf, 3, np.int64)),
        (int, Field(ge=0, le=2**80), box(0, INT64.max, np.int64)),
        (int, Field(ge=INT64.min, le=5), box(INT64.min, 5, np.int64)),
        (float, ..., box(-np.inf, np.inf, np.float64)),
        (float, Field(ge=0, le=1), box(0, 1, np.float64)),
        (float, Field(ge=0), box(0, np.inf, np.float64)),
        (Metres, Field(ge=0, le=1), box(0, 1, np.float64)),
        (Literal["a", "b", "c"], ..., gs.Discrete(3)),
        (Literal[3, True, "x"], ..., gs.Discrete(3)),
        (Colour, ..., gs.Discrete(2)),
        (Level, ..., gs.Discrete(2)),
        (str, ..., gs.Text(4096, min_length=0, charset=string.printable)),
        (
            str,
            Field(min_length=2, max_length=9),
            gs.Text(9, min_length=2, charset=string.printable),
        ),
        (
            Annotated[str, StringConstraints(max_length=9)],
            ...,
            gs.Text(9, min_length=0, charset=string.printable),
        ),
        (Annotated[np.ndarray, Array((2,), "uint8")], ..., box(0, 255, np.uint8, (2,))),
        (
            Annotated[NDArray[np.float32], Array((2,), "float32")],
            ...,
            gs.Box(-np.inf, np.inf, (2,)),
        ),
        (Annotated[np.ndarray, Array((), "float32", 0, 1)], ..., gs.Box(0, 1, ())),
        (
            Annotated[np.ndarray, Array((2,), "int16", [0, 1], 5)],
            ...,
            gs.Box(np.array([0, 1]), np.array([5, 5]), dtype=np.int16),
        ),
        (Annotated[np.ndarray, Array((2,), "int64")], ..., box(-np.inf, np.inf, np.int64, (2,))),
        (Annotated[int, gs.Discrete(5, start=2)], ..., gs.Discrete(5, start=2)),
        (Annotated[str, gs.Text(3)], ..., gs.Text(3)),
        (Annotated[int | None, gs.Discrete(3)], ..., gs.Discrete(3)),
        (
            Annotated[dict[str, Any], gs.Dict({"x": gs.Discrete(2)})],
            ...,
            gs.Dict({"x": gs.Discrete(2)}),
        ),
    ],
)
def test_the_space_of_a_field(annotation: Any, info: Any, space: gymnasium.Space[Any]) -> None:
    assert_same_space(one(annotation, info).space, space)


def test_open_bounds_of_floats_are_the_next_numbers() -> None:
    space = one(float, Field(gt=0, lt=1)).space
    assert isinstance(space, gs.Box)
    assert space.low == np.nextafter(0, 1) and space.high == np.nextafter(1, 0)


def test_a_nested_model_is_a_dict_in_its_order() -> None:
    mapping = one(Pose)
    assert isinstance(mapping.space, gs.Dict)
    assert list(mapping.space) == ["x", "turned"]


def test_a_nested_model_of_one_field_stays_a_dict() -> None:
    inner = create_model("Inner", n=(int, Field(ge=0, le=1)))
    assert one(inner).space == gs.Dict({"n": gs.Discrete(2)})


def test_one_field_is_the_space_and_several_are_a_dict_in_order() -> None:
    space = ModelMapping.of(Everything).space
    assert isinstance(space, gs.Dict)
    assert list(space) == [name for name in Everything.model_fields if name != "metadata"]
    assert getattr(space, "sort_keys", False) is False


def test_base_fields_are_no_part_of_the_space() -> None:
    seen = create_model("Seen", __base__=Observation, n=(int, Field(ge=0, le=3)))
    assert ModelMapping.of(seen).space == gs.Discrete(4)
    plain = create_model("Plain", reward=(bool, ...), n=(bool, ...))
    assert ModelMapping.of(plain).space == gs.Dict({"reward": gs.Discrete(2), "n": gs.Discrete(2)})


def test_other_fields_can_be_excluded() -> None:
    model = create_model("Two", __base__=Action, a=(bool, False), b=(Literal["x", "y"], "y"))
    mapping = ModelMapping.of(model, exclude=frozenset({"metadata", "a"}))
    assert mapping.space == gs.Discrete(2)
    assert mapping.to_model(0).model_dump() == {"metadata": {}, "a": False, "b": "x"}


def test_bounds_may_be_set_at_run_time() -> None:
    for n in (3, 18):
        model = create_model("Move", __base__=Action, action_id=(int, Field(ge=0, lt=n)))
        assert ModelMapping.of(model).space == gs.Discrete(n)


class Node(Action):
    next: Optional["Node"] = None


class Loop(BaseModel):
    inner: "LoopInner"


class LoopInner(BaseModel):
    outer: Loop


class Later(Action):
    value: "Soon"


Soon = Literal["x", "y"]


def test_names_known_only_later_are_resolved() -> None:
    assert ModelMapping.of(Later).space == gs.Discrete(2)


T = TypeVar("T")


class Envelope(Action, Generic[T]):
    content: T


def test_generic_models_are_mapped_once_they_are_concrete() -> None:
    assert ModelMapping.of(Envelope[Colour]).space == gs.Discrete(2)
    with pytest.raises(SpaceError, match=r"Envelope\.content"):
        ModelMapping.of(Envelope)


@pytest.mark.parametrize(
    ("annotation", "info", "words"),
    [
        (list[int], ..., r"no space is known for the type list\[int\]"),
        (dict[str, Any], ..., "no space is known"),
        (int | None, ..., "no space is known"),
        (np.ndarray, ..., "no space is known for the type ndarray"),
        (bytes, ..., "no space is known for the type bytes"),
        (Any, ..., "no space is known"),
        (Marks, ..., "no space is known for the type Marks"),
        (Nothing, ..., "Nothing has no members"),
        (int, Field(ge=3, le=2), "no 64-bit integer lies within its bounds"),
        (int, Field(ge=2**63), "no 64-bit integer"),
        (float, Field(ge=1, le=0), "no number lies within its bounds"),
        (float, Field(gt=1, lt=1), "no number lies within its bounds"),
        (str, Field(min_length=5000), "min_length 5000 is above max_length 4096"),
        (Node, ..., "no space is known"),
        (Loop, ..., "Loop contains itself"),
        (create_model("Empty"), ..., "Empty has no fields"),
    ],
)
def test_what_cannot_be_mapped_is_named_with_a_way_out(
    annotation: Any, info: Any, words: str
) -> None:
    model = create_model("Model", __base__=Action, ok=(bool, False), wrong=(annotation, info))
    with pytest.raises(SpaceError, match=words) as caught:
        ModelMapping.of(model)
    assert str(caught.value.field).startswith("Model.wrong")
    assert caught.value.message.startswith("Model.wrong")
    assert caught.value.hint


def test_the_path_to_a_nested_field_is_named() -> None:
    inner = create_model("Inner", ok=(bool, ...), bad=(bytes, ...))
    with pytest.raises(SpaceError) as caught:
        one(create_model("Outer", inner=(inner, ...)))
    assert caught.value.field == "One.field.inner.bad"


def test_a_model_without_fields_has_no_space() -> None:
    with pytest.raises(SpaceError, match="Action has no field"):
        ModelMapping.of(Action)


# -- samples ----------------------------------------------------------------------------------


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
