"""Which space a model has."""

# No `from __future__ import annotations`: Pydantic needs the annotations themselves.

import enum
import string
from typing import Annotated, Any, Generic, Literal, NewType, Optional, TypeVar

import annotated_types
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as gs
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    Field,
    PositiveInt,
    StringConstraints,
    conint,
    conlist,
    create_model,
)

from openenv_gym.errors import SpaceError
from openenv_gym.models import Action, Array, Observation
from openenv_gym.spaces import ModelMapping, Sample

from .compare import assert_same_space
from .models import Colour, Everything, Level, Pose, one


INT64 = np.iinfo(np.int64)
STRICT = (annotated_types.Ge(2), annotated_types.Lt(5))
LAX = (annotated_types.Gt(0), annotated_types.Le(9))
Metres = NewType("Metres", float)


class Nothing(enum.Enum):
    pass


class Marks(enum.Flag):
    A = 1
    B = 2


FIXED = Field(min_length=3, max_length=3)
Digit = Annotated[int, Field(ge=1, le=9)]
Share = Annotated[float, Field(ge=0, le=1)]


def printable(max_length: int) -> gs.Text:
    return gs.Text(max_length, min_length=0, charset=string.printable)


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
        (int, Field(ge=0, le=2**80), box(0, np.inf, np.int64)),
        (int, Field(ge=INT64.min, le=5), box(-np.inf, 5, np.int64)),
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
        (
            Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=9)],
            ...,
            gs.Text(9, min_length=1, charset=string.printable),
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
        (Annotated[Any, Sample(gs.MultiBinary(2))], ..., gs.MultiBinary(2)),
        # labels together
        (None, ..., gs.Discrete(1)),
        (Literal["a", "b"] | None, ..., gs.Discrete(3)),
        (Literal["a", "b"] | Literal["b", "c"] | Colour, ..., gs.Discrete(5)),
        # text
        (str, Field(pattern="^[a-c]{3}$"), gs.Text(3, min_length=3, charset="abc")),
        (str, Field(pattern="^[a-c]+$"), gs.Text(4096, min_length=1, charset="abc")),
        (str, Field(pattern="^[a-c]{3,}$", max_length=9), gs.Text(9, min_length=3, charset="abc")),
        (
            str,
            Field(pattern="^[a-h][1-8][a-h][1-8][qrbn]?$"),
            gs.Text(5, min_length=4, charset="12345678abcdefghnqr"),
        ),
        (str, Field(pattern="[a-c]{3}"), printable(4096)),
        (str, Field(pattern="^(yes|no)$"), printable(4096)),
        # lists of numbers, labels and arrays
        (list[float], FIXED, box(-np.inf, np.inf, np.float64, (3,))),
        (list[Share], FIXED, box(0, 1, np.float64, (3,))),
        (list[int], FIXED, box(-np.inf, np.inf, np.int64, (3,))),
        (list[Digit], FIXED, gs.MultiDiscrete([9] * 3, start=[1] * 3)),
        (list[Colour], FIXED, gs.MultiDiscrete([2] * 3)),
        (list[bool], FIXED, gs.MultiBinary(3)),
        (list[Annotated[list[bool], FIXED]], FIXED, gs.MultiBinary([3, 3])),
        (
            list[Annotated[list[Digit], FIXED]],
            FIXED,
            gs.MultiDiscrete(np.full((3, 3), 9), start=np.ones((3, 3), np.int64)),
        ),
        (list[Annotated[list[Share], FIXED]], FIXED, box(0, 1, np.float64, (3, 3))),
        (list[Annotated[np.ndarray, Array((2,), "uint8")]], FIXED, box(0, 255, np.uint8, (3, 2))),
        (conlist(Share, min_length=3, max_length=3), ..., box(0, 1, np.float64, (3,))),
        (list[float], ..., gs.Sequence(box(-np.inf, np.inf, np.float64), stack=True)),
        (list[Digit], ..., gs.Sequence(gs.Discrete(9, start=1), stack=True)),
        (list[Annotated[list[bool], FIXED]], ..., gs.Sequence(gs.MultiBinary(3), stack=True)),
        (tuple[Colour, ...], Field(max_length=9), gs.Sequence(gs.Discrete(2), stack=True)),
        # other lists and tuples
        (list[list[Digit]], ..., gs.Sequence(gs.Sequence(gs.Discrete(9, start=1), stack=True))),
        (list[str], FIXED, gs.Tuple([printable(4096)] * 3)),
        (list[str], ..., gs.Sequence(printable(4096))),
        (tuple[Colour, Share], ..., gs.Tuple([gs.Discrete(2), box(0, 1, np.float64)])),
        (tuple[bool], ..., gs.Tuple([gs.Discrete(2)])),
        # sets and dicts
        (set[Colour], ..., gs.MultiBinary(2)),
        (frozenset[Digit], ..., gs.MultiBinary(9)),
        (
            dict[Literal["l", "r"], bool],
            Field(min_length=2),
            gs.Dict([("l", gs.Discrete(2)), ("r", gs.Discrete(2))]),
        ),
        (
            dict[Colour, bool],
            Field(min_length=2),
            gs.Dict([("RED", gs.Discrete(2)), ("GREEN", gs.Discrete(2))]),
        ),
        (dict[Colour, bool], ..., gs.Sequence(gs.Tuple([gs.Discrete(2), gs.Discrete(2)]))),
        (dict[str, bool], ..., gs.Sequence(gs.Tuple([printable(4096), gs.Discrete(2)]))),
        # unions
        (bool | None, ..., gs.OneOf([gs.Discrete(2), gs.Discrete(1)])),
        (int | None, Field(ge=0, le=3), gs.OneOf([gs.Discrete(4), gs.Discrete(1)])),
        (Share | Digit, ..., gs.OneOf([box(0, 1, np.float64), gs.Discrete(9, start=1)])),
        (
            Annotated[dict[str, Any], gs.Dict({"x": gs.Discrete(2)})],
            ...,
            gs.Dict({"x": gs.Discrete(2)}),
        ),
    ],
)
def test_the_space_of_a_field(annotation: Any, info: Any, space: gymnasium.Space[Any]) -> None:
    # `sort_keys` of a Dict that was written down by hand is another's business.
    assert one(annotation, info).space == space
    if not isinstance(space, gs.Dict):
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


class Tree(BaseModel):
    children: list["Tree"] = []


Endless: Any = int
for _ in range(16):
    Endless = list[Endless]


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
        (list, ..., "no space is known for the type list"),
        (list[Any], ..., "no space is known for the type Any"),
        (dict, ..., "no space is known for the type dict"),
        (dict[str, Any], ..., "no space is known"),
        (dict[float, int], ..., "keys of a dict must be strings"),
        (dict[Pose, int], ..., "keys of a dict must be strings"),
        (int | bytes, ..., "no space is known for the type bytes"),
        (set[int], ..., "a set of at most 4096 labels or bounded integers"),
        (set[str], ..., "a set of at most 4096 labels or bounded integers"),
        (set[Annotated[int, Field(ge=0, le=4096)]], ..., "a set of at most 4096 labels"),
        (list[int], Field(max_length=0), "it is always empty"),
        (list[int], Field(min_length=3, max_length=2), "min_length 3 is above max_length 2"),
        (tuple[()], ..., "it is always empty"),
        (str, Field(pattern="^[a-z]{3}$", max_length=2), "min_length 3 is above max_length 2"),
        (Endless, ..., "nested more than 16 deep"),
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
        (Node, ..., "Node contains itself"),
        (Tree, ..., "Tree contains itself"),
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


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, INT64.max), (0, 2**70), (INT64.min, INT64.max), (-(2**70), 5), (-5, INT64.max)],
)
def test_integers_up_to_the_last_one_can_be_drawn(low: int, high: int) -> None:
    space = one(Annotated[int, Field(ge=low, le=high)]).space
    space.seed(1)
    # Half of them are drawn around their one bound: the first number alone eight times is not rare.
    drawn = {int(space.sample()) for _ in range(100)}
    assert len(drawn) > 1 and all(low <= each <= high for each in drawn)
