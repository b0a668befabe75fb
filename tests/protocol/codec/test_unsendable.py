"""What cannot be sent, and the path by which the error names it."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import msgpack
import numpy as np
import pytest
from gymnasium.spaces import GraphInstance

from openenv_gym.errors import EncodeError
from openenv_gym.protocol.codec import encode_packet
from openenv_gym.protocol.codec.format import MAX_DEPTH, MAX_ITEMS

from .packets import nested, round_trip, strict_equal


@dataclasses.dataclass
class Record:
    x: int = 1


class Arrayish:
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("not to be called")


class Table(Arrayish):
    def to_dict(self) -> Any:
        raise AssertionError("not to be called")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (object(), "plain data"),
        (print, "plain data"),
        (Fraction(1, 2), "plain data"),
        (Record(), "asdict"),
        (Arrayish(), "asarray"),
        (Table(), "to_dict"),
        (range(3), "a list"),
        (iter([]), "a list"),
        ("\ud800", "surrogates"),
        (2**8191, "1025 bytes"),
        (-(2**8191) - 1, "1025 bytes"),
        (np.ma.array([1]), "mask"),
        (np.zeros(1, [("a", object)]), "Python objects"),
        (np.zeros(1, np.dtype({"names": ["a", "b"], "formats": ["u2", "u1"], "offsets": [0, 1]})), "overlap"),
        (np.zeros(1, [(("title", "a"), "u1")]), "titles"),
        (np.zeros((0, 2**40)), "shape"),
        (np.zeros(2**17, []), "shape"),
        (memoryview(b"abcdef")[::2], "contiguous"),
        (msgpack.Timestamp(1, 2), "extension type"),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_unknown_values_are_refused_by_path(value: Any, says: str) -> None:
    for wrap, path in (
        (lambda v: v, ""),
        (lambda v: {"a": [0, 1, v]}, "['a'][2]"),
        (lambda v: (0, (v,)), "[1][0]"),
        (lambda v: np.fromiter([0, v], object, 2), "[1]"),
        (lambda v: GraphInstance(0, v, 0), ".edges"),
    ):
        with pytest.raises(EncodeError, match=says) as raised:
            encode_packet(
                [17, 7, [1, 2.0, wrap(value)], [0, 0]],
                names=[None, None, ["obs", "reward", "info"]],
            )
        assert raised.value.field == "info" + path
        assert raised.value.data == {"type": type(value).__qualname__}
        assert raised.value.hint or ":" in raised.value.message
    with pytest.raises(EncodeError) as raised:
        encode_packet([1, [value]])
    assert raised.value.field == "[1][0]"


@pytest.mark.parametrize("value", [np.longdouble(1), np.clongdouble(1), np.zeros(3, np.longdouble)])
def test_long_doubles_are_refused_where_they_are_longer_than_float64(value: Any) -> None:
    if np.dtype(np.longdouble).itemsize > 8:
        with pytest.raises(EncodeError, match=r"no portable form\. Convert it"):
            encode_packet([value])
    else:
        assert strict_equal(round_trip(value), value)


def test_bad_keys_are_named() -> None:
    with pytest.raises(EncodeError) as raised:
        encode_packet([{"fine": 1, object: 2}], names=["info"])
    assert raised.value.field == "info.keys()[1]"


def test_names_may_be_short_or_missing() -> None:
    with pytest.raises(EncodeError) as raised:
        encode_packet([1, [2, object()]], names=["a", ["b"]])
    assert raised.value.field == "[1][1]"
    with pytest.raises(EncodeError) as raised:
        encode_packet([1, object()], names=["a"])
    assert raised.value.field == "[1]"


WRAPS = {
    "list": lambda value: [value],
    "tuple": lambda value: (value,),
    "dict": lambda value: {"k": value},
    "frozenset": lambda value: frozenset([value]),
    "object array": lambda value: np.fromiter([value], object, 1),
    "mixed": lambda value: [({"k": value},)],
}


@pytest.mark.parametrize("kind", WRAPS)
def test_depth_is_limited(kind: str) -> None:
    levels = {"mixed": 3, "object array": 2}.get(kind, 1)
    deepest = (MAX_DEPTH - 1) // levels
    value = nested(deepest, WRAPS[kind])
    assert strict_equal(round_trip(value), value)
    # NumPy overflows the stack where it frees thousands of arrays within each other.
    for depth in (deepest + 1, 500, 5000 if kind != "object array" else 600):
        with pytest.raises(EncodeError, match="nested more than 64 levels"):
            encode_packet([nested(depth, WRAPS[kind])])


def test_values_that_contain_themselves_are_refused() -> None:
    itself: list[Any] = []
    itself.append(itself)
    in_tuple: list[Any] = []
    in_tuple.append((in_tuple,))
    in_dict: dict[str, Any] = {}
    in_dict["k"] = [in_dict]
    in_array = np.zeros(1, object)
    in_array[0] = in_array
    for value in (itself, in_tuple, in_dict, in_array):
        with pytest.raises(EncodeError, match="contains itself") as raised:
            encode_packet([value], names=["action"])
        assert raised.value.field.startswith("action[")
        assert len(raised.value.field) < 100
    assert round_trip((1,)) == (1,)  # nothing is left behind


def test_too_many_items_are_refused() -> None:
    with pytest.raises(EncodeError, match="NumPy array"):
        encode_packet([[0] * MAX_ITEMS])
    assert len(round_trip([0] * (MAX_ITEMS - 1))) == MAX_ITEMS - 1
