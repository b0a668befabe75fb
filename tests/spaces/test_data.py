from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as gs
from hypothesis import given, settings
from hypothesis import strategies as st

from openenv_gym.errors import SpaceError
from openenv_gym.spaces import compat, space_from_data, space_to_data

from .compare import assert_identical, assert_same_space, samples
from .corpus import SPACES
from .strategies import seeds, spaces


few = settings(max_examples=60, deadline=None)


def assert_plain(data: Any) -> None:
    assert type(data) in (dict, list, str, int, float, bool, type(None), np.ndarray)
    if isinstance(data, dict):
        assert all(type(key) is str for key in data)
        for value in data.values():
            assert_plain(value)
    elif isinstance(data, list):
        for value in data:
            assert_plain(value)
    elif type(data) is int:
        assert -(2**63) <= data < 2**64
    elif isinstance(data, np.ndarray):
        assert data.flags.c_contiguous and data.dtype.isnative and data.dtype.kind in "biuf"


@pytest.mark.parametrize("name", SPACES)
def test_a_space_comes_back_as_it_went(name: str) -> None:
    space = SPACES[name]
    data = space_to_data(space)
    assert_plain(data)
    again = space_from_data(data)
    assert again == space
    assert_same_space(space, again)
    assert_identical(space_to_data(again), data)


@pytest.mark.parametrize("name", SPACES)
def test_equal_seeds_sample_equally(name: str) -> None:
    # A copy, because tests share the corpus and sampling changes a space.
    space = copy.deepcopy(SPACES[name])
    again = space_from_data(space_to_data(space))
    assert_identical(samples(space, 7), samples(again, 7))


@few
@given(space=spaces(), seed=seeds)
def test_any_space_comes_back_as_it_went(space: gymnasium.Space[Any], seed: int) -> None:
    data = space_to_data(space)
    assert_plain(data)
    again = space_from_data(data)
    assert again == space
    assert_same_space(space, again)
    assert_identical(samples(space, seed, 2), samples(again, seed, 2))


# -- the form ---------------------------------------------------------------------------------


def test_a_constant_bound_is_one_number() -> None:
    assert space_to_data(SPACES["box image"]) == {
        "type": "Box",
        "shape": [210, 160, 3],
        "dtype": "uint8",
        "low": 0,
        "high": 255,
    }


def test_bounds_for_each_element_are_arrays() -> None:
    data = space_to_data(gs.Box(np.array([0, 1]), np.array([2, 2]), dtype=np.int16))
    assert_identical(data["low"], np.array([0, 1], np.int16))
    assert data["high"] == 2


def test_negative_zero_beside_zero_is_no_constant() -> None:
    data = space_to_data(SPACES["box negative zero"])
    assert np.signbit(data["low"]).tolist() == [True, False]
    assert data["high"] == 0.0


def test_infinity_of_integers_is_sent_beside_the_bound() -> None:
    data = space_to_data(gs.Box(-np.inf, 5, (2,), np.int64))
    assert data["low"] == -(2**63)
    assert data["bounded_below"] is False
    assert "bounded_above" not in data
    again = space_from_data(data)
    assert isinstance(again, gs.Box)
    assert not again.is_bounded("below") and again.is_bounded("above")


def test_text_keeps_its_order_of_characters() -> None:
    data = space_to_data(gs.Text(3, charset="zyxa"))
    assert data == {"type": "Text", "min_length": 1, "max_length": 3, "charset": "zyxa"}
    again = space_from_data(data)
    assert isinstance(again, gs.Text)
    assert again.character_list == ("z", "y", "x", "a")


def test_one_object_in_two_places_stays_one() -> None:
    shared = gs.Box(-1, 1, (2,))
    data = space_to_data(gs.Tuple([gs.Discrete(2), shared, shared]))
    assert data["spaces"][2] == {"type": "Shared", "number": 2}
    again = space_from_data(data)
    assert isinstance(again, gs.Tuple)
    assert again[1] is again[2]


def test_a_space_shares_no_memory_with_its_data() -> None:
    low = np.array([0.0, 1.0])
    low.flags.writeable = False  # as a codec may give it
    data = {"type": "Box", "shape": [2], "dtype": "float64", "low": low, "high": 1}
    space = space_from_data(data)
    assert isinstance(space, gs.Box)
    assert not np.shares_memory(space.low, low)
    space.low[0] = 0.5  # writable


def test_an_integer_is_taken_where_a_float_is_meant() -> None:
    data = {"type": "Box", "shape": [2], "dtype": "float32", "low": 0, "high": 1}
    assert space_from_data(data) == gs.Box(0, 1, (2,))


def test_unknown_fields_are_ignored() -> None:
    assert space_from_data({**space_to_data(gs.Discrete(3)), "colour": "red"}) == gs.Discrete(3)


# -- what cannot be sent ----------------------------------------------------------------------


class Mine(gs.Discrete):
    pass


class Other(gymnasium.Space[Any]):
    pass


@pytest.mark.parametrize(
    ("space", "path", "words"),
    [
        (Mine(3), "space", "test_data.Mine"),
        (gs.Dict({"a": gs.Tuple([gs.Discrete(2), Mine(3)])}), "space['a'][1]", "Mine"),
        (gs.Sequence(Other()), "space.feature_space", "Other"),
        (gs.OneOf([Other()]), "space[0]", "Other"),
        (gs.Dict({("a", 1): gs.Discrete(2)}), "space", "key ('a', 1), a tuple"),
        (gs.Dict({np.str_("a"): gs.Discrete(2)}), "space", "a str_"),
        (gs.Box(0, 1, (2,), np.longdouble), "space", str(np.dtype(np.longdouble))),
    ],
)
def test_what_cannot_be_sent_is_named(space: Any, path: str, words: str) -> None:
    with pytest.raises(SpaceError) as caught:
        space_to_data(space)
    assert caught.value.field == path
    assert words in caught.value.message
    assert caught.value.hint is not None


def test_errors_use_the_name_given() -> None:
    with pytest.raises(SpaceError, match=r"^action_space\[0\] is a "):
        space_to_data(gs.Tuple([Mine(3)]), "action_space")


def nested(depth: int) -> gymnasium.Space[Any]:
    space: gymnasium.Space[Any] = gs.Discrete(2)
    for _ in range(depth):
        space = gs.Tuple([space])
    return space


def test_depth_is_limited_on_both_sides() -> None:
    assert space_from_data(space_to_data(nested(15))) == nested(15)
    with pytest.raises(SpaceError, match="deep"):
        space_to_data(nested(16))
    data = space_to_data(nested(15))
    with pytest.raises(SpaceError, match="deep"):
        space_from_data({"type": "Tuple", "spaces": [data]})


# -- what is no space -------------------------------------------------------------------------

BOX = {"type": "Box", "shape": [2], "dtype": "int8", "low": 0, "high": 1}
DISCRETE = {"type": "Discrete", "n": 2, "start": 0, "dtype": "int64"}
MULTI = {"type": "MultiDiscrete", "shape": [2], "dtype": "int64", "nvec": 2, "start": 0}
TEXT = {"type": "Text", "min_length": 1, "max_length": 2, "charset": "ab"}


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (None, "space"),
        ([], "space"),
        ({}, "space.type"),
        ({"type": "box"}, "space.type"),
        ({"type": 3}, "space.type"),
        ({"type": ["Box"]}, "space.type"),
        ({**BOX, "shape": 2}, "space.shape"),
        ({**BOX, "shape": [-1]}, "space.shape"),
        ({**BOX, "shape": [True]}, "space.shape"),
        ({**BOX, "shape": [2.0]}, "space.shape"),
        ({**BOX, "shape": [1] * 33}, "space.shape"),
        ({**BOX, "shape": [2**70]}, "space.shape"),
        ({**BOX, "dtype": "object"}, "space.dtype"),
        ({**BOX, "dtype": "int8,int8"}, "space.dtype"),
        ({**BOX, "dtype": "float128"}, "space.dtype"),
        ({**BOX, "dtype": None}, "space.dtype"),
        ({**BOX, "low": None}, "space.low"),
        ({**BOX, "low": True}, "space.low"),
        ({**BOX, "low": 0.0}, "space.low"),
        ({**BOX, "low": "0"}, "space.low"),
        ({**BOX, "low": [0, 0]}, "space.low"),
        ({**BOX, "low": -129}, "space.low"),
        ({**BOX, "high": 10**5000}, "space.high"),
        ({**BOX, "low": 5}, "space"),
        ({**BOX, "low": np.zeros(3, np.int8)}, "space.low"),
        ({**BOX, "low": np.zeros(2, np.int16)}, "space.low"),
        ({**BOX, "low": np.array([None, None])}, "space.low"),
        ({**BOX, "dtype": "float32", "low": float("nan")}, "space"),
        ({**BOX, "dtype": "float32", "high": 1e300}, "space.high"),
        ({**BOX, "dtype": "float64", "high": 10**400}, "space.high"),
        ({**BOX, "dtype": "bool"}, "space.low"),
        ({**BOX, "bounded_below": 1}, "space.bounded_below"),
        ({key: value for key, value in BOX.items() if key != "high"}, "space.high"),
        ({**DISCRETE, "n": 0}, "space"),
        ({**DISCRETE, "n": 2**63}, "space"),
        ({**DISCRETE, "n": 2.0}, "space.n"),
        ({**DISCRETE, "start": False}, "space.start"),
        ({**DISCRETE, "dtype": "float32"}, "space.dtype"),
        ({"type": "MultiBinary", "n": 0}, "space"),
        ({"type": "MultiBinary", "n": -3}, "space"),
        ({"type": "MultiBinary", "n": [2, 0]}, "space"),
        ({"type": "MultiBinary", "n": True}, "space.n"),
        ({**MULTI, "nvec": 0}, "space"),
        ({**MULTI, "start": np.zeros(1, np.int64)}, "space.start"),
        ({**MULTI, "dtype": "float32"}, "space.dtype"),
        ({**TEXT, "charset": ["a"]}, "space.charset"),
        ({**TEXT, "min_length": 3}, "space"),
        ({**TEXT, "min_length": -1}, "space"),
        ({**TEXT, "max_length": 2.0}, "space.max_length"),
        ({"type": "Dict", "sort_keys": True, "spaces": {"a": DISCRETE}}, "space.spaces"),
        ({"type": "Dict", "sort_keys": True, "spaces": [["a"]]}, "space.spaces"),
        ({"type": "Dict", "sort_keys": True, "spaces": [[["a"], DISCRETE]]}, "space.spaces"),
        ({"type": "Dict", "sort_keys": True, "spaces": [["a", DISCRETE]] * 2}, "space.spaces"),
        ({"type": "Dict", "sort_keys": 1, "spaces": []}, "space.sort_keys"),
        ({"type": "Dict", "sort_keys": True, "spaces": [["a", {**BOX, "low": 9}]]}, "space['a']"),
        ({"type": "Tuple", "spaces": [DISCRETE, 5]}, "space[1]"),
        ({"type": "Tuple", "spaces": [DISCRETE, {**BOX, "low": 0.5}]}, "space[1].low"),
        ({"type": "OneOf", "spaces": []}, "space"),
        ({"type": "Sequence", "space": None, "stack": False}, "space.feature_space"),
        ({"type": "Sequence", "space": DISCRETE, "stack": None}, "space.stack"),
        ({"type": "Graph", "node_space": DISCRETE}, "space.edge_space"),
        ({"type": "Graph", "node_space": None, "edge_space": None}, "space.node_space"),
        ({"type": "Shared", "number": 0}, "space.number"),
        ({"type": "Tuple", "spaces": [{"type": "Shared", "number": 0}]}, "space[0].number"),
        (
            {"type": "Tuple", "spaces": [DISCRETE, {"type": "Shared", "number": -1}]},
            "space[1].number",
        ),
    ],
)
def test_what_is_no_space_is_refused_with_a_path(data: Any, field: str) -> None:
    with pytest.raises(SpaceError) as caught:
        space_from_data(data)
    assert caught.value.field == field
    assert caught.value.message.startswith(field.rsplit(".", 1)[0])
    assert len(str(caught.value)) < 500


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64)
    | st.floats()
    | st.sampled_from([*"ab", "Box", "Shared", "Tuple", "uint8", "float64", ">i4"])
    | st.sampled_from([np.zeros(2), np.ones((), np.int8), np.array("x")]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=5,
)


def nodes(data: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        found.append((data, key))
        if isinstance(value, (dict, list)):
            found.extend(nodes(value))
    return found


@few
@given(space=spaces(), draw=st.data())
def test_damaged_data_never_breaks_anything_else(
    space: gymnasium.Space[Any], draw: st.DataObject
) -> None:
    data = space_to_data(space)
    parent, key = draw.draw(st.sampled_from(nodes(data)))
    if isinstance(parent, dict) and draw.draw(st.booleans()):
        del parent[key]
    else:
        parent[key] = draw.draw(plain)
    try:
        again = space_from_data(data)
    except SpaceError as error:
        assert error.field is not None
    else:
        assert_plain(space_to_data(again))


# -- what would take too much memory ----------------------------------------------------------


def stacked(data: dict[str, Any], times: int) -> dict[str, Any]:
    for _ in range(times):
        data = {"type": "Sequence", "stack": True, "space": data}
    return data


def doubled(data: dict[str, Any], times: int) -> dict[str, Any]:
    """Tuples of a space and itself again, each around the one before."""
    for depth in range(times, 0, -1):
        # Numbers count from the outside: the space inside the tuple at `depth` is `depth`.
        data = {"type": "Tuple", "spaces": [data, {"type": "Shared", "number": depth}]}
    return data


MIB = 1 << 20


@pytest.mark.parametrize("data", [{**BOX, "shape": [2**40]}, {**BOX, "shape": [33 * MIB]}])
def test_the_limit_is_64_mib(data: dict[str, Any]) -> None:
    with pytest.raises(SpaceError, match="more than 64 MiB") as caught:
        space_from_data(data)
    assert str(caught.value.field).startswith("space.")


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv_gym.spaces.data._LIMIT", MIB)


CARRIED = {**BOX, "shape": [MIB], "low": np.zeros(MIB, np.int8), "high": np.ones(MIB, np.int8)}


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize(
    "data",
    [
        {**BOX, "shape": [2**31, 2**31]},
        {**CARRIED, "bounded_below": False, "bounded_above": False},
        {**MULTI, "shape": [2**50]},
        {"type": "Tuple", "spaces": [{**BOX, "shape": [MIB // 6]}] * 4},
        stacked({"type": "MultiBinary", "n": 2**50}, 1),
        stacked({**TEXT, "charset": "a" * MIB}, 1),
        stacked(DISCRETE, 15),
        stacked({**BOX, "shape": [MIB // 8]}, 3),
        stacked(CARRIED, 1),
        doubled(DISCRETE, 15),
        {"type": "Graph", "node_space": {**BOX, "shape": [MIB // 3]}, "edge_space": None},
    ],
)
def test_little_data_cannot_take_much_memory(data: dict[str, Any]) -> None:
    with pytest.raises(SpaceError, match="more than 1 MiB") as caught:
        space_from_data(data)
    assert str(caught.value.field).startswith("space")


@pytest.mark.usefixtures("small_limit")
def test_what_the_data_carries_is_no_matter_of_the_limit() -> None:
    assert space_from_data(CARRIED).shape == (MIB,)
    boxes = {"type": "Tuple", "spaces": [{**BOX, "shape": [MIB // 10]}] * 4}
    assert space_from_data(boxes) == gs.Tuple([gs.Box(0, 1, (MIB // 10,), np.int8)] * 4)


# -- older versions of Gymnasium ----------------------------------------------------------------


def test_without_sort_keys_for_dict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compat, "_DICT_TAKES_SORT_KEYS", False)
    space = space_from_data(space_to_data(SPACES["dict unsorted"]))
    assert isinstance(space, gs.Dict)
    assert list(space) == ["b", "a"]
