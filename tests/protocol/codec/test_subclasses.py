"""Subclasses of the built-in types, enumerations and models: what arrives of them."""

from __future__ import annotations

import enum
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, ConfigDict

from .packets import round_trip, strict_equal


class Colour(enum.IntEnum):
    RED = 1


class Name(str, enum.Enum):
    ANNA = "anna"


class Corner(enum.Enum):
    LEFT = (0, 1)
    BIG = 2**70
    ARRAY = OrderedDict(a=1)


class Flags(enum.IntFlag):
    A = 1
    B = 2


class Model(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    x: int = 1
    inner: dict[str, Any] = {"y": (1, 2)}
    array: Any = None


Point = namedtuple("Point", "x y")


class Text(str):
    def __str__(self) -> str:
        return "something else"


class Number(int):
    def __index__(self) -> int:
        return 99


class Real(float):
    pass


class Data(bytes):
    pass


class Bytes(bytearray):
    pass


class List(list):
    pass


class Matrix(np.ndarray):
    pass


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Colour.RED, 1),
        (Name.ANNA, "anna"),
        (Corner.LEFT, (0, 1)),
        (Corner.BIG, 2**70),
        (Corner.ARRAY, {"a": 1}),
        (Flags.A | Flags.B, 3),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (defaultdict(list, a=[1]), {"a": [1]}),
        (UserDict(a=1), {"a": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (Model(), {"x": 1, "inner": {"y": (1, 2)}, "array": None}),
        (Point(1, [2]), (1, [2])),
        (Text("text"), "text"),
        (Number(5), 5),
        (Number(2**70), 2**70),
        (Real(0.5), 0.5),
        (Data(b"x"), b"x"),
        (bytearray(b"x"), b"x"),
        (Bytes(b"x"), b"x"),
        (memoryview(b"xyz"), b"xyz"),
        (List([1, (2,)]), [1, (2,)]),
        (np.arange(3).view(Matrix), np.arange(3)),
        (np.rec.array([(1, 2.0)], dtype=[("a", "<i4"), ("b", "<f8")]),
         np.array([(1, 2.0)], dtype=[("a", "<i4"), ("b", "<f8")])),
        (np.longlong(3), np.int64(3)),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_subclasses_arrive_as_their_base(value: Any, expected: Any) -> None:
    assert strict_equal(round_trip(value), expected)
    assert strict_equal(round_trip({"k": [value]}), {"k": [expected]})


def test_a_model_keeps_its_arrays() -> None:
    array = np.arange(1000.0)
    assert strict_equal(round_trip(Model(array=array))["array"], array)
