from __future__ import annotations

import copy
import json
import pickle
from typing import Annotated, Any, Optional

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from openenv_gym.errors import SpaceError
from openenv_gym.models import Array, Observation
from openenv_gym.models.fields import array_from_lists


class Frame(Observation):
    screen: Annotated[NDArray[np.uint8], Array(shape=(210, 160, 3), dtype="uint8", low=0, high=255)]


class Point(BaseModel):
    position: Annotated[np.ndarray, Array((2,), "float32", low=-1, high=[1, 2])] = Field(
        default_factory=lambda: np.zeros(2, np.float32)
    )
    level: Annotated[np.ndarray, Array((), "int64")] = Field(default_factory=lambda: np.array(3))
    mask: Optional[Annotated[np.ndarray, Array((2, 2), "bool")]] = None  # noqa: UP045


def adapter(form: Array) -> TypeAdapter[Any]:
    return TypeAdapter(Annotated[np.ndarray, form])


# -- arrays -----------------------------------------------------------------------------------


def test_an_array_of_that_form_is_taken_uncopied() -> None:
    screen = np.zeros((210, 160, 3), np.uint8)
    assert Frame(screen=screen).screen is screen


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((2,), np.float64), "got shape (2,) and dtype float64"),
        (np.zeros((2,), ">f4"), "got shape (2,) and dtype >f4"),
        (np.zeros((3,), np.float32), "got shape (3,) and dtype float32"),
        (np.zeros((1, 2), np.float32), "got shape (1, 2) and dtype float32"),
        (np.array(["a", "b"]), "got shape (2,) and dtype <U1"),
        (np.float32(1), "got shape () and dtype float32"),
        ("12", "got a str"),
        (b"12345678", "got a bytes"),
        (None, "got a NoneType"),
        ({"a": 1}, "got a dict"),
    ],
)
def test_anything_else_is_refused_with_both_forms_named(array: Any, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Point(position=array)
    assert "expected an array of shape (2,) and dtype float32" in str(caught.value)
    assert words in str(caught.value)


def test_values_of_an_array_are_not_looked_at() -> None:
    outside = np.array([-5, 5], np.float32)
    assert Point(position=outside).position is outside


def test_a_numpy_scalar_is_an_array_of_shape_nothing() -> None:
    assert Point(level=np.int64(7)).level == np.array(7)
    assert isinstance(Point(level=np.int64(7)).level, np.ndarray)
    with pytest.raises(ValidationError, match="int64, got shape"):
        Point(level=np.int32(7))


def test_assignment_is_validated() -> None:
    frame = Frame(screen=np.zeros((210, 160, 3), np.uint8))
    with pytest.raises(ValidationError):
        frame.screen = np.zeros((210, 160), np.uint8)


class Untouchable(np.ndarray):
    def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("looked at the values")

    def __array_function__(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("looked at the values")


def test_a_frame_costs_as_little_as_a_pixel() -> None:
    screen = np.zeros((210, 160, 3), np.uint8).view(Untouchable)
    with pytest.raises(AssertionError):
        np.any(screen > 255)
    assert Frame(screen=screen).screen is screen


# -- lists ------------------------------------------------------------------------------------


def test_nested_lists_are_converted() -> None:
    point = Point.model_validate({"position": [0.5, 2], "level": 7.0, "mask": [[True, False]] * 2})
    assert point.position.dtype == np.float32 and point.position.tolist() == [0.5, 2.0]
    assert point.level.dtype == np.int64 and point.level.shape == () and point.level == 7
    assert point.mask is not None and point.mask.dtype == np.bool_
    assert Point.model_validate_json('{"position": [0, 1]}').position.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("form", "value", "words"),
    [
        (Array((2,), "float32", -1, 1), [0, 2], r"value 2.0 at \[1\] is above 1.0"),
        (Array((2,), "int8", [0, 5], 9), [0, 4], r"value 4 at \[1\] is below 5"),
        (Array((2,), "float32"), [0], "got one of shape"),
        (Array((2,), "float32"), [[0, 1]], "got one of shape"),
        (Array((2,), "float32"), [1, [2]], "inhomogeneous"),
        (Array((2,), "float32"), ["a", "b"], "got one of <U1"),
        (Array((2,), "float32"), [1, None], "got one of object"),
        (Array((2,), "float32"), [True, False], "got one of bool"),
        (Array((2,), "float32"), [1e39, 0], "float32 cannot hold"),
        (Array((2,), "float16"), [70000, 0], "float16 cannot hold"),
        (Array((2,), "uint8"), [256, 0], "got 256, which uint8 cannot hold"),
        (Array((2,), "uint8"), [-1, 0], "got -1, which uint8 cannot hold"),
        (Array((2,), "uint8"), [0.5, 0], "0.5 is not an integer"),
        (Array((2,), "uint8"), [True, False], "got one of bool"),
        (Array((2,), "int64"), [2**63, 0], "got 9223372036854775808, which int64 cannot hold"),
        (Array((2,), "int64"), [2**200, 0], "int64 cannot hold"),
        (Array((2,), "int64"), [float("inf"), 0], "inf is not an integer"),
        (Array((2,), "int64"), [float("nan"), 0], "nan is not an integer"),
        (Array((2,), "bool"), [0, 1], "got one of int64"),
        (Array((), "int64"), [1], "got one of shape"),
        (Array((0, 3), "int64"), [[]], "got one of shape"),
    ],
)
def test_lists_that_do_not_fit_are_refused(form: Array, value: Any, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        adapter(form).validate_python(value)
    with pytest.raises(ValidationError, match=words):
        adapter(form).validate_json(json.dumps(value))


def test_large_integers_keep_every_digit() -> None:
    form = Array((3,), "uint64")
    numbers = [2**64 - 1, 2**63 + 1, 1]
    assert adapter(form).validate_python(numbers).tolist() == numbers
    assert adapter(Array((2,), "int64")).validate_python([2**53 + 1, -5.0]).tolist() == [
        2**53 + 1,
        -5,
    ]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4)])
def test_empty_arrays_come_back_from_lists(shape: tuple[int, ...]) -> None:
    empty = np.empty(shape, np.int16)
    again = array_from_lists(empty.tolist(), shape, empty.dtype)
    assert again.shape == shape and again.dtype == np.int16


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_json_brings_every_finite_array_back(draw: st.DataObject) -> None:
    dtypes = hnp.integer_dtypes(endianness="=") | hnp.unsigned_integer_dtypes(endianness="=")
    dtypes |= hnp.boolean_dtypes() | hnp.floating_dtypes(endianness="=", sizes=(16, 32, 64))
    shape = draw.draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    dtype = draw.draw(dtypes)
    elements = {"allow_nan": False, "allow_infinity": False} if dtype.kind == "f" else {}
    array = draw.draw(hnp.arrays(dtype, shape, elements=elements))
    array = np.asarray(array)
    mine = adapter(Array(shape, dtype))
    again = mine.validate_json(mine.dump_json(array))
    assert again.dtype == dtype and again.shape == shape
    assert again.tobytes() == array.tobytes()


@settings(max_examples=60, deadline=None)
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3),
    ),
    dtype=st.sampled_from(["bool", "uint8", "int64", "float16", "float64"]),
    shape=st.lists(st.integers(0, 3), max_size=2).map(tuple),
)
def test_any_value_gives_an_array_of_that_form_or_a_value_error(
    value: Any, dtype: str, shape: tuple[int, ...]
) -> None:
    form = Array(shape, dtype)
    try:
        array = form.validate(value)
    except ValueError:
        return
    assert array.shape == shape and array.dtype == dtype


# -- out again --------------------------------------------------------------------------------


def test_python_keeps_the_array_and_json_gets_lists() -> None:
    point = Point()
    assert point.model_dump()["position"] is point.position
    dumped = {"position": [0.0, 0.0], "level": 3, "mask": None}
    assert point.model_dump(mode="json") == dumped
    assert json.loads(point.model_dump_json()) == dumped


def test_what_model_construct_let_in_does_not_break_json() -> None:
    assert Point.model_construct(position=[1, 2]).model_dump(mode="json")["position"] == [1, 2]


def test_json_schema_tells_dtype_and_shape() -> None:
    properties = Point.model_json_schema()["properties"]
    assert properties["position"] == {
        "title": "Position",
        "type": "array",
        "items": {"type": "number", "minimum": -1.0, "maximum": 2.0},
        "minItems": 2,
        "maxItems": 2,
        "dtype": "float32",
        "shape": [2],
    }
    assert properties["level"]["type"] == "integer"
    assert (properties["level"]["dtype"], properties["level"]["shape"]) == ("int64", [])
    mask = properties["mask"]["anyOf"][0]
    assert mask["items"]["items"] == {"type": "boolean"}
    assert mask["shape"] == [2, 2]


def test_json_schema_names_the_widest_of_several_bounds() -> None:
    items = adapter(Array((2,), "int8", [0, 5], [7, 9])).json_schema()["items"]
    assert items == {"type": "integer", "minimum": 0, "maximum": 9}


def test_json_schema_of_floats_names_no_infinity() -> None:
    schema = adapter(Array((1,), "float64")).json_schema()
    assert schema["items"] == {"type": "number"}
    assert json.loads(json.dumps(schema, allow_nan=False)) == schema


# -- the annotation itself --------------------------------------------------------------------


def test_limits_stand_in_for_missing_bounds() -> None:
    form = Array((2,), "int8")
    assert (form.low.item(), form.high.item()) == (-128, 127)
    assert Array((2,), "float32").low.item() == -np.inf
    assert Array((), "bool").high.item() is True
    assert Array((1,), "uint64").high.item() == 2**64 - 1


def test_it_is_a_value() -> None:
    form = Array([2], "float32", low=-1, high=[1, 2])
    assert form == Array((2,), np.float32, -1.0, np.array([1, 2]))
    assert hash(form) == hash(Array((2,), np.float32, -1.0, np.array([1, 2])))
    assert form != Array((2,), np.float32, -1.0)
    assert form != "Array"
    assert pickle.loads(pickle.dumps(form)) == form == copy.deepcopy(form)
    assert repr(form) == "Array(shape=(2,), dtype='float32', low=-1.0, high=[1.0, 2.0])"
    with pytest.raises(AttributeError):
        form.shape = (3,)
    with pytest.raises(ValueError, match="read-only"):
        form.high[0] = 5


@pytest.mark.parametrize(
    ("args", "field"),
    [
        (((-1,), "uint8"), "shape"),
        (((2,), "complex64"), "dtype"),
        (((2,), "U3"), "dtype"),
        (((2,), np.longdouble), "dtype"),
        (((2,), "int32", [1, 2, 3]), "low"),
        (((2,), "int32", 0.5), "low"),
        (((2,), "uint8", -1), "low"),
        (((2,), "uint8", 0, 256), "high"),
        (((2,), "int32", -np.inf), "low"),
        (((2,), "float32", float("nan")), "low"),
        (((2,), "float32", 0, "x"), "high"),
        (((2,), "uint8", 3, 2), "low"),
        (((2,), "uint8", [0, 3], [5, 2]), "low"),
        (((), "bool", 0, 2), "high"),
    ],
)
def test_forms_that_no_array_has_are_refused(args: tuple[Any, ...], field: str) -> None:
    with pytest.raises(SpaceError) as caught:
        Array(*args)
    assert caught.value.field == field
