from __future__ import annotations

import dataclasses
import enum
import gc
import sys
import threading
import tracemalloc
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import msgpack
import numpy as np
import pytest
from gymnasium.spaces import GraphInstance
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from pydantic import BaseModel, ConfigDict

from openenv_gym.errors import DecodeError, EncodeError
from openenv_gym.protocol import codec
from openenv_gym.protocol.codec import (
    ALIGNMENT_BYTES,
    INLINE_LIMIT_BYTES,
    decode_packet,
    encode_packet,
    packet_size,
)
from openenv_gym.protocol.values import MAX_DEPTH, MAX_ITEMS, walk_head

from ..spaces.corpus import SPACES
from ..spaces.strategies import seeds, spaces


def strict_equal(a: Any, b: Any) -> bool:
    """Whether two values agree in types, dtypes, shapes, order of keys and bits (NaNs included)."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (np.ndarray, np.generic)):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype.hasobject:
            return all(strict_equal(x, y) for x, y in zip(a.flat, b.flat, strict=True))
        return a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return strict_equal(list(a.items()), list(b.items()))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(strict_equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, (set, frozenset)):
        rest = list(b)
        for x in a:
            found = [i for i, y in enumerate(rest) if strict_equal(x, y)]
            if not found:
                return False
            del rest[found[0]]
        return not rest
    if isinstance(a, (float, complex)):
        return repr(a) == repr(b)  # tells 0.0 from -0.0, and takes NaN for NaN
    return bool(a == b)


def to_data(parts: list[bytes | memoryview]) -> memoryview:
    """What a receiver has of a packet."""
    assert packet_size(parts) == sum(len(part) for part in parts)
    return memoryview(bytearray(b"".join(parts)))


def round_trip(value: Any) -> Any:
    """What arrives of a value."""
    (received,) = decode_packet(to_data(encode_packet([value])))
    return received


def head_of(value: Any) -> Any:
    """The head of a packet with this value, as a plain MessagePack library reads it."""
    data = encode_packet([value])[0]
    size = int.from_bytes(data[:4], "little")
    return msgpack.unpackb(bytes(data[4 : 4 + size]), strict_map_key=False)[0]


def packet(head: Any, *rest: bytes) -> memoryview:
    """A packet with this head, bytes or a value for `msgpack`."""
    head = head if isinstance(head, bytes) else msgpack.packb(head)
    return memoryview(bytearray(b"".join([len(head).to_bytes(4, "little"), head, *rest])))


def ext(code: int, payload: Any) -> msgpack.ExtType:
    """An extension with this payload, bytes or a value for `msgpack`."""
    return msgpack.ExtType(code, payload if isinstance(payload, bytes) else msgpack.packb(payload))


# -- round trips ------------------------------------------------------------------------------

plain_dtypes = st.one_of(
    npst.boolean_dtypes(),
    npst.integer_dtypes(endianness="<"),
    npst.unsigned_integer_dtypes(endianness="<"),
    npst.floating_dtypes(endianness="<", sizes=(16, 32, 64)),
    npst.complex_number_dtypes(endianness="<", sizes=(64, 128)),
    npst.datetime64_dtypes(endianness="<"),
    npst.timedelta64_dtypes(endianness="<"),
    npst.unicode_string_dtypes(endianness="<"),
    npst.byte_string_dtypes(),
)


def structured(inner: st.SearchStrategy[np.dtype[Any]]) -> st.SearchStrategy[np.dtype[Any]]:
    fields = st.tuples(inner, st.lists(st.integers(0, 3), max_size=2).map(tuple))
    names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=3)
    return st.builds(
        lambda found, align: np.dtype(
            [(name, dtype, shape) for name, (dtype, shape) in found.items()], align=align
        ),
        st.dictionaries(names, fields, max_size=3),
        st.booleans(),
    )


dtypes = st.recursive(plain_dtypes, structured, max_leaves=3)
arrays = npst.arrays(dtypes, npst.array_shapes(min_dims=0, min_side=0, max_side=4))
texts = st.text(max_size=20)
integers = st.integers() | st.integers(-(2**70), 2**70) | st.integers(-(2**8190), 2**8190)
scalars = plain_dtypes.flatmap(lambda dtype: npst.arrays(dtype, ()).map(lambda array: array[()]))
hashables = st.recursive(
    st.none() | st.booleans() | integers | st.floats() | texts | st.binary(max_size=20) | st.complex_numbers(),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
values = st.recursive(
    hashables | arrays | scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(hashables, inner, max_size=4),
        st.sets(hashables, max_size=4),
        st.lists(inner, min_size=4, max_size=4).map(
            lambda items: np.fromiter(items, object, 4).reshape(2, 2)
        ),
        st.builds(GraphInstance, arrays, st.none() | arrays, st.none() | arrays),
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(values)
def test_every_value_arrives_as_it_was(value: Any) -> None:
    data = to_data(encode_packet([value]))
    walk_head(bytes(data[4 : 4 + int.from_bytes(data[:4], "little")]))  # the full check
    assert strict_equal(decode_packet(data), [value])


@settings(max_examples=100, deadline=None)
@given(spaces(), seeds)
def test_samples_of_spaces(space: Any, seed: int) -> None:
    space.seed(seed)
    sample = space.sample()
    assert strict_equal(round_trip(sample), sample)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # Box near the limits of 64 bits
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_samples_of_peculiar_spaces(space: Any) -> None:
    space.seed(7)
    try:
        sample = space.sample()
    except (ValueError, OverflowError, TypeError, AssertionError):
        pytest.skip("Gymnasium cannot sample it")
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


# -- what becomes of subclasses ---------------------------------------------------------------


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


# -- the form on the wire (docs/protocol.md, section 3) ---------------------------------------


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ((1, "a"), ext(1, [1, "a"])),
        (np.arange(2, dtype="f4"), ext(2, ["<f4", [2], bytes(6) + b"\x80\x3f"])),
        (np.array(True), ext(2, ["|b1", [], b"\1"])),
        (np.zeros((0, 2), "u1"), ext(2, ["|u1", [0, 2], b""])),
        (np.array(["äb"]), ext(2, ["<U2", [1], "äb".encode("utf-32-le")])),
        (np.zeros(1, "M8[ns]"), ext(2, ["<M8[ns]", [1], bytes(8)])),
        (np.zeros(600, "u1"), ext(2, ["|u1", [600], 0])),
        (
            np.zeros(1, np.dtype([("a", "u1"), ("b", "<i4", (2,))], align=True)),
            ext(2, [[["a", "|u1"], ["", "|V3"], ["b", "<i4", [2]]], [1], bytes(12)]),
        ),
        (np.float32(1), ext(3, ["<f4", b"\0\0\x80\x3f"])),
        (np.bool_(False), ext(3, ["|b1", b"\0"])),
        (np.str_("a"), ext(3, ["<U1", b"a\0\0\0"])),
        (2**64, ext(4, b"\1" + bytes(8))),
        (-(2**63) - 1, ext(4, b"\xff\x7f" + b"\xff" * 7)),
        (1 + 2j, ext(5, np.array([1.0, 2.0], "<f8").tobytes())),
        ({1}, ext(6, [1])),
        (frozenset({1}), ext(7, [1])),
        (np.array([[None, 1]], object), ext(8, [[1, 2], [None, 1]])),
        (GraphInstance(1, None, None), ext(9, [1, None, None])),
        (0.5, 0.5),
        (2**64 - 1, 2**64 - 1),
        (b"x", b"x"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_form(value: Any, form: Any) -> None:
    assert strict_equal(head_of(value), form)
    assert strict_equal(round_trip(value), value)


@pytest.mark.parametrize("name", ["", "x" * 3, "x" * 11])
@pytest.mark.parametrize("sizes", [[513], [513, 514, 528], [600, 4096, 513]])
def test_buffers_are_aligned(name: str, sizes: list[int]) -> None:
    message = [name, [np.full(size, index, np.uint8) for index, size in enumerate(sizes)]]
    data = to_data(encode_packet(message))
    size = 4 + int.from_bytes(data[:4], "little")
    for index, length in enumerate(sizes):
        start = size + -size % ALIGNMENT_BYTES
        assert not any(data[size:start])
        assert bytes(data[start : start + length]) == bytes([index]) * length
        size = start + length
    assert len(data) == size
    assert strict_equal(decode_packet(data), message)
    padded = memoryview(bytearray(data) + bytes(-size % ALIGNMENT_BYTES))
    assert strict_equal(decode_packet(padded), message)


def test_buffers_are_numbered_in_the_order_of_the_head() -> None:
    arrays = [np.full(600, index, np.int16) for index in range(6)]
    value = [
        arrays[0],
        (arrays[1], {"a": (arrays[2],)}),
        np.fromiter(arrays[3:5], object, 2),
        arrays[5],
    ]
    assert strict_equal(round_trip(value), value)


# -- copies -----------------------------------------------------------------------------------


def test_large_arrays_are_not_copied() -> None:
    frame = np.arange(210 * 160 * 3, dtype=np.uint8).reshape(210, 160, 3)
    parts = encode_packet([frame, {"again": frame}])
    assert [np.shares_memory(np.frombuffer(part, np.uint8), frame) for part in parts] == [
        False,
        True,
        True,
    ]
    data = to_data(parts)
    first, info = decode_packet(data)
    memory = np.frombuffer(data, np.uint8)
    for array in (first, info["again"]):
        assert np.shares_memory(array, memory)
        assert array.flags.writeable and array.flags.aligned
    assert not np.shares_memory(first, info["again"])
    first[:] = 0
    assert strict_equal(info["again"], frame)


def test_read_only_arrays_can_be_sent() -> None:
    array = np.arange(1000)
    array.setflags(write=False)
    received = round_trip((array, array[:3]))
    assert strict_equal(received, (array, array[:3]))
    assert all(item.flags.writeable for item in received)


def test_small_arrays_have_memory_of_their_own() -> None:
    small, limit, above = (
        np.zeros(n, np.uint8) for n in (4, INLINE_LIMIT_BYTES, INLINE_LIMIT_BYTES + 1)
    )
    assert len(encode_packet([small, limit])) == 1
    assert len(encode_packet([above])) == 2
    data = to_data(encode_packet([small, small, limit]))
    arrays = decode_packet(data)
    for array in arrays:
        array[:] = 1  # writable
        assert not np.shares_memory(array, np.frombuffer(data, np.uint8))
    assert not np.shares_memory(arrays[0], arrays[1])


# -- what cannot be sent ----------------------------------------------------------------------


@dataclasses.dataclass
class Record:
    x: int = 1


class Arrayish:
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("not to be called")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (object(), "plain data"),
        (print, "plain data"),
        (Fraction(1, 2), "plain data"),
        (Record(), "asdict"),
        (Arrayish(), "asarray"),
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


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="longdouble is float64 here")
@pytest.mark.parametrize("value", [np.longdouble(1), np.clongdouble(1), np.zeros(3, np.longdouble)])
def test_long_doubles_are_refused(value: Any) -> None:
    with pytest.raises(EncodeError, match="no portable form; convert it"):
        encode_packet([value])


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


def nested(depth: int, wrap: Any, value: Any = 0) -> Any:
    for _ in range(depth):
        value = wrap(value)
    return value


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


def test_a_failure_leaves_nothing_behind() -> None:
    array = np.zeros(1000)
    for _ in range(3):
        with pytest.raises(EncodeError):
            encode_packet([array, (array, object())])
        assert strict_equal(round_trip((array,)), (array,))


# -- threads ----------------------------------------------------------------------------------


def test_threads_encode_at_once() -> None:
    message = [17, 7, [np.arange(4.0), (1, (2, np.arange(1000)))], {"x": np.float32(1)}]
    expected = b"".join(encode_packet(message))
    wrong: list[bytes] = []

    def encode() -> None:
        for _ in range(300):
            data = b"".join(encode_packet(message))
            if data != expected or not strict_equal(
                decode_packet(memoryview(bytearray(data))), message
            ):
                wrong.append(data)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=encode) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_encoding_inside_of_encoding() -> None:
    class Nosy(dict):  # type: ignore[type-arg]
        def items(self) -> Any:
            raise AssertionError

        def __iter__(self) -> Any:
            encode_packet([(1, np.zeros(1000))])
            return super().__iter__()

        def keys(self) -> Any:
            encode_packet([(1, np.zeros(1000))])
            return super().keys()

    value = (Nosy(a=np.ones(1000)), np.zeros(1000))
    assert strict_equal(round_trip(value), ({"a": np.ones(1000)}, np.zeros(1000)))


def test_large_buffers_are_not_kept() -> None:
    """Not even until the garbage collector finds them."""
    text = "x" * 2**22
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(3):
            encode_packet([text])
            encode_packet([((text,),)])
            with pytest.raises(EncodeError):
                encode_packet([text, (text,), object()])
        assert tracemalloc.get_traced_memory()[0] < 2**23
    finally:
        tracemalloc.stop()
        gc.enable()


# -- what is not a packet ---------------------------------------------------------------------

ARRAY = ext(2, ["|u1", [600], 0])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0",
        b"\0\0\0\0",
        b"\xff\xff\xff\xff\x90",
        packet(b"\x90", b"\0" * 16),
        packet(b"\x90", b"\0"),
        packet(b"\x90\x90"),
        packet({}),
        packet(1),
        packet(b"\xc1"),
        packet(b"\x92\x01"),
        packet(b"\x91\xa1\xff"),  # no UTF-8
        packet(b"\x91\x81\x90\x01"),  # a list as a key
        packet([ext(6, [[]])]),
        packet([ext(0, b"")]),
        packet([ext(10, b"")]),
        packet([ext(127, b"")]),
        packet([msgpack.Timestamp(1)]),
        packet([msgpack.Timestamp(1, 1)]),
        packet([msgpack.Timestamp(2**40, 1)]),
        packet(b"\x91\xc9\0\0\0\x0c\xff" + bytes(12)),
        packet([ext(1, {})]),
        packet([ext(1, 1)]),
        packet([ext(1, b"")]),
        packet([ext(1, b"\x90\x90")]),
        packet([ext(1, b"\x92\x90")]),
        packet([ext(2, [])]),
        packet([ext(2, ["|u1", [1]])]),
        packet([ext(2, ["|u1", [1], b"xx"])]),
        packet([ext(2, ["|u1", [2], b"x"])]),
        packet([ext(2, ["|u1", [True], b"x"])]),
        packet([ext(2, ["|u1", [1.0], b"x"])]),
        packet([ext(2, ["|u1", [-1], b"x"])]),
        packet([ext(2, ["|u1", [-1, -1], b"x"])]),
        packet([ext(2, ["|u1", 1, b"x"])]),
        packet([ext(2, ["|u1", None, b"x"])]),
        packet([ext(2, ["|u1", [1], "x"])]),
        packet([ext(2, ["|u1", [0, 2**63 - 1], b""])]),
        packet([ext(2, ["|u1", [0, 2**63 - 1, 2**63 - 1], b""])]),
        packet([ext(2, ["|u1", [2**32, 2**32], b""])]),
        packet([ext(2, ["|u1", [2**64 - 1] * 3, b""])]),
        packet([ext(2, ["|V0", [2**62], b""])]),
        packet([ext(2, ["|u1", [1] * 33, b"x"])]),
        packet([ext(2, ["|b1", [1], b"\2"])]),
        packet([ext(2, ["|b1", [600], 0])], bytes(7), b"\2" * 600),
        packet([ext(2, ["<U1", [1], b"\0\0\x11\0"])]),
        packet([ext(2, [[["a", "<U1"]], [1], b"\0\0\x11\0"])]),
        packet([ext(2, [[["a", [["b", "|b1", [2, 2]]]]], [1], b"\0\0\0\2"])]),
        packet([ext(3, ["|b1", b"\2"])]),
        packet([ext(3, ["<U1", b"\0\0\x11\0"])]),
        packet([ext(3, ["<f4", b"\0\0\0"])]),
        packet([ext(3, ["<f4", 0])]),
        packet([ext(3, ["<f4"])]),
        packet([ext(4, b"")]),
        packet([ext(4, b"\0\1")]),
        packet([ext(4, b"\xff\xff")]),
        packet([ext(4, b"\1" * 1025)]),
        packet([ext(5, bytes(15))]),
        packet([ext(5, bytes(17))]),
        packet([ext(8, [[2], [1]])]),
        packet([ext(8, [[1], b"x"])]),
        packet([ext(8, [[0, 2**50], []])]),
        packet([ext(8, [[], []])]),
        packet([ext(9, [1, 2])]),
        packet([ARRAY]),
        packet([ARRAY], bytes(3), bytes(599)),
        packet([ARRAY], bytes(3), bytes(600 + 16)),
        packet([ARRAY, ARRAY], bytes(2000)),
        packet([ext(2, ["|u1", [600], 1])], bytes(2000)),
        packet([ext(2, ["|u1", [600], -1])], bytes(2000)),
        packet([ext(2, ["|u1", [600], False])], bytes(2000)),
        packet([ext(2, ["|u1", [2**40], 0])], bytes(2000)),
        packet([ext(2, ["|u1", [600], 0]), ext(2, ["|u1", [600], 2])], bytes(2000)),
    ],
    ids=lambda data: bytes(data[4:40]).hex() or "empty",
)  # fmt: skip
def test_malformed_packets(data: bytes) -> None:
    for prefix_size in (0, 600):  # small heads are checked less before they are unpacked
        whole = bytearray(data)
        if prefix_size and len(whole) > 5 and 0x90 <= whole[4] < 0x9F:
            filler = msgpack.packb("x" * prefix_size)
            size = int.from_bytes(whole[:4], "little") + len(filler)
            whole[4] += 1
            whole[5:5] = filler
            whole[:4] = size.to_bytes(4, "little")
            if size % ALIGNMENT_BYTES != (size - len(filler)) % ALIGNMENT_BYTES:
                whole += bytes(ALIGNMENT_BYTES)
        with pytest.raises(DecodeError):
            decode_packet(memoryview(whole))


BAD_DTYPES = [
    "", "f4", "<f3", "<f16", "<c32", ">f4", "=f4", "|f4", "|i4", "<i1", "<u3", "|O", "|O8", "O", "object", "|S-1",
    "|S01", "|S2147483648", "|S99999999999999999999", "<U536870912", "<U999999999", "|V9999999999", "<M8[x]",
    "<M8[0s]", "<M8[9999999999s]", "<M8[s", "<m4", "<M8[generic]", "|b1 ", "|b1\n", "\u0663", "|S\u0663", "i4,i4",
    "(2,)f4", "f4" * 1000, 1, None, {}, b"<f4", [["a"]], [["a", "<f4", [1], 1]], [[1, "<f4"]], [[b"a", "<f4"]],
    [["a", "|O"]], [["a", "<f4"], ["a", "<f4"]], [["a", "<f4", 1]], [["a", "<f4", [-1]]], [["a", "<f4", [2**62]]],
    [["a", "<f4", [2**31]]], [["a", "<f4", [1] * 33]], ["a", "<f4"], [[["t", "a"], "<f4"]], [["", "|V2147483648"]],
    [["a", "|S999999999"]] * 3, [["", "|S999999999"]] * 3, nested(17, lambda inner: [["a", inner]], "<f4"),
]  # fmt: skip


@pytest.mark.parametrize("dtype", BAD_DTYPES, ids=lambda dtype: repr(dtype)[:40])
def test_bad_dtypes(dtype: Any) -> None:
    for value in (
        ext(2, [dtype, [1], b"x" * 4]),
        ext(2, [dtype, [0], b""]),
        ext(3, [dtype, b"xxxx"]),
    ):
        with pytest.raises(DecodeError):
            decode_packet(packet([value]))


def test_caches_stay_bounded() -> None:
    for n in range(3000):
        decode_packet(packet([ext(2, [f"<U{n}", [0], b""])]))
        decode_packet(packet([ext(2, ["|u1", [0, n], b""])]))
        encode_packet([np.zeros((0, n))])
    from openenv_gym.protocol import values as module

    assert len(module._layouts) <= 256
    assert len(codec._known_arrays) <= 1024
    assert len(codec._plans) <= 1024


def test_the_shortcut_for_known_arrays_is_no_shortcut_for_bad_ones() -> None:
    good = np.arange(4, dtype=np.float32)
    for _ in range(2):
        assert strict_equal(round_trip(good), good)
    payload = head_of(good).data
    for bad in (payload[:-1], payload + b"\0"):
        with pytest.raises(DecodeError):
            decode_packet(packet([ext(2, bad)]))
    # A shape with the byte that begins a bin.
    for count in (0xC4, 0xC4C4):
        array = np.zeros((0, count), np.uint8)
        for _ in range(2):
            assert strict_equal(round_trip(array), array)


def test_other_writers_may_use_longer_forms() -> None:
    head = b"\xdd\0\0\0\x05" + b"\xda\0\x01a" + b"\xd3" + bytes(7) + b"\x01" + b"\xca\x3f\x80\0\0"
    head += b"\xdf\0\0\0\x01\xc0\xc2" + b"\xc9\0\0\0\x05\x01\xdd\0\0\0\0"
    for filler in (b"", b"\xdb\0\0\x10\0" + b"x" * 4096):
        data = packet(head[:4] + bytes([5 + bool(filler)]) + head[5:] + filler)
        assert strict_equal(decode_packet(data)[:5], ["a", 1, 1.0, {None: False}, ()])
