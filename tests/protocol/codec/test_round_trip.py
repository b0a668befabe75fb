"""Values that arrive as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import GraphInstance
from hypothesis import given, settings

from openenv_gym.protocol.codec import decode_packet, encode_packet
from openenv_gym.protocol.codec.head import flatten_head

from ...spaces.corpus import SPACES, UNSAMPLED
from ...spaces.strategies import seeds, spaces
from .packets import round_trip, strict_equal, to_data
from .strategies import values


@settings(max_examples=150, deadline=None)
@given(values)
def test_every_value_arrives_as_it_was(value: Any) -> None:
    data = to_data(encode_packet([value]))
    flatten_head(bytes(data[4 : 4 + int.from_bytes(data[:4], "little")]))  # the full check
    assert strict_equal(decode_packet(data), [value])


@settings(max_examples=100, deadline=None)
@given(spaces(), seeds)
def test_samples_of_spaces(space: Any, seed: int) -> None:
    space.seed(seed)
    sample = space.sample()
    assert strict_equal(round_trip(sample), sample)


@pytest.mark.parametrize("name", [name for name in SPACES if name not in UNSAMPLED])
def test_samples_of_peculiar_spaces(name: str) -> None:
    space = SPACES[name]
    space.seed(7)
    sample = space.sample()
    if space.dtype is not None and space.dtype.byteorder == ">":
        sample = sample.astype(space.dtype.newbyteorder("<"))
    assert strict_equal(round_trip(sample), sample)


@pytest.mark.parametrize(
    "value",
    [
        np.array(5),
        np.array("text"),
        np.array(""),
        np.zeros((0, 5), np.float16),
        np.zeros((2, 0, 10**6), np.uint8),
        np.array([np.nan, np.inf, -np.inf, -0.0], np.float16),
        np.array([np.datetime64("NaT", "m"), np.datetime64("2020-02-29T12:00")]),
        np.array([1, 2], "m8[25s]"),
        np.zeros(3, "V5"),
        np.zeros(300, [("a", "<i2"), ("b", [("c", "<U3"), ("d", "?", (2, 3))])]),
        np.zeros(3, np.dtype([("a", "u1"), ("b", "<f8"), ("c", "u1")], align=True)),
        np.zeros(3, np.dtype({"names": ["b"], "formats": ["<f4"], "offsets": [8], "itemsize": 20})),
        np.zeros(5, []),
        np.zeros((2,) * 9, np.uint8)[..., None],
        np.zeros(1000, bool),
        np.array([0, 2**64 - 1], np.uint64),
        np.float32(np.nan),
        np.float64(-0.0),
        np.bool_(True),
        np.uint64(2**64 - 1),
        np.str_("ends with NUL\0"),
        np.str_("\ud800"),
        np.str_(""),
        np.bytes_(b"ends with NUL\0"),
        np.void(b"raw"),
        np.zeros(1, [("a", "<i2"), ("b", "<f8")])[0],
        np.datetime64("NaT", "ns"),
        np.timedelta64(5, "h"),
        np.complex64(1j),
        2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 2**127, 2**128, -(2**127), -(2**127) - 1,
        2**8191 - 1, -(2**8191),
        complex(-0.0, float("nan")),
        {(1, (2, 3)): {frozenset({1})}, None: b"", 2**100: True, 1.5: [], np.float32(2): ()},
        [{"a": ({"b": ((({"c": ((1,),)},),),)},)}],
        np.fromiter([[1], (2,), np.array(3), np.zeros(2), None, {}], object, 6).reshape(3, 2),
        np.full((), None, object),
        np.zeros((0, 3), object),
        GraphInstance(np.zeros((3, 2), np.float32), None, None),
        GraphInstance(np.zeros(3, int), np.zeros((2, 4)), np.zeros((2, 2), np.int32)),
        "\0 \U0001f600", "x" * 70000, b"\0" * 70000,
    ],
    ids=lambda value: f"{type(value).__name__} {str(value)[:20]!r}",
)  # fmt: skip
def test_corners_arrive_as_they_were(value: Any) -> None:
    assert strict_equal(round_trip(value), value)
    assert strict_equal(round_trip([value, {"key": (value,)}]), [value, {"key": (value,)}])


@pytest.mark.parametrize("count", [10, 1000])
@pytest.mark.parametrize(
    "dtype", ["i2", "f8", "c8", "M8[s]", "U3", [("a", "f4"), ("b", "i8", (2,))]]
)
def test_other_orders_arrive_in_c_order_and_little_endian(dtype: Any, count: int) -> None:
    big = np.dtype(dtype).newbyteorder(">")
    array = (
        np.arange(count * 6).reshape(count, 6).astype("i8").astype("U3" if dtype == "U3" else "i8")
    )
    array = np.stack([array] * 2).astype(big)
    for view in (array, array.T, array[:, ::-2], np.asfortranarray(array), array[1, 1]):
        received = round_trip(view)
        assert received.dtype == np.dtype(dtype).newbyteorder("<")
        assert received.flags.c_contiguous
        assert np.array_equal(received, view)
