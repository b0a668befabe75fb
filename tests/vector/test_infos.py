"""Infos of servers put together are those that one `_add_info` over all of them makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import VectorEnv
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.vector import slices
from openenv_gym.vector.infos import info_of, merge_infos, take_infos, with_masks
from tests.vector.worlds import same


KINDS = {
    "int": st.integers(-(2**40), 2**40),
    "float": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "npint": st.integers(0, 200).map(np.uint8),
    "array": st.lists(st.integers(0, 9), min_size=2, max_size=2).map(
        lambda items: np.array(items, np.float32)
    ),
    "_own": st.integers(0, 9),
    7: st.integers(0, 9),
    "text": st.sampled_from(["a", "b", None]),
    "final_obs": st.integers(0, 9).map(lambda number: np.full((2, 2), number)),
    "deep": st.fixed_dictionaries(
        {},
        optional={
            "x": st.integers(0, 5),
            "y": st.sampled_from([None, "z"]),
            "deeper": st.fixed_dictionaries({}, optional={"w": st.floats(0, 1)}),
        },
    ),
}
INFOS = st.fixed_dictionaries({}, optional=KINDS)


def batched(infos: list[dict[str, Any]]) -> dict[str, Any]:
    env: VectorEnv[Any, Any, Any] = VectorEnv()
    env.num_envs = len(infos)
    merged: dict[str, Any] = {}
    for index, info in enumerate(infos):
        merged = env._add_info(merged, info, index)
    return merged


@given(st.lists(INFOS, min_size=1, max_size=7), st.integers(1, 4))
def test_merging(infos: list[dict[str, Any]], num_servers: int) -> None:
    parts = [
        (slice(first, first + size), batched(infos[first : first + size]))
        for first, size in slices(len(infos), min(num_servers, len(infos)))
    ]
    same(merge_infos(parts, len(infos)), batched(infos))


@given(st.lists(INFOS, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_merging_in_any_order(infos: list[dict[str, Any]], dice: Any) -> None:
    order = list(range(len(infos)))
    dice.shuffle(order)
    middle = len(order) // 2
    parts = [
        (np.array(rows, np.int64), batched([infos[row] for row in rows]))
        for rows in (sorted(order[:middle]), sorted(order[middle:]))
        if rows
    ]
    ours, theirs = merge_infos(parts, len(infos)), batched(infos)
    assert ours.keys() == theirs.keys()
    for key in ours:
        if str(key).startswith("_"):
            same(ours[key], theirs[key])


@given(st.lists(INFOS, min_size=1, max_size=6))
def test_taking_some(infos: list[dict[str, Any]]) -> None:
    rows = np.arange(0, len(infos), 2)
    taken = take_infos(batched(infos), rows)
    expected = batched([infos[row] for row in rows])
    assert taken.keys() == expected.keys()
    for key in expected:
        if str(key).startswith("_"):
            same(taken[key], expected[key])


def test_taking_none() -> None:
    assert take_infos({"a": np.zeros(2), "_a": True, "b": {}}, np.array([], np.int64)) == {}


@given(st.lists(INFOS, min_size=1, max_size=6))
def test_each_has_its_own_again(infos: list[dict[str, Any]]) -> None:
    batch = batched(infos)
    for index, info in enumerate(infos):
        found = info_of(batch, index)
        assert found.keys() == info.keys()  # `_own` and 7 among them
        assert found.get("_own") == info.get("_own") and found.get(7) == info.get(7)


def test_the_first_that_has_a_key_decides_about_its_dtype() -> None:
    infos: list[dict[str, Any]] = [{}, {"a": 1}, {"a": 2.7}, {"a": 3.2}]
    parts = [(slice(0, 2), batched(infos[:2])), (slice(2, 4), batched(infos[2:]))]
    same(merge_infos(parts, 4), batched(infos))


@pytest.mark.parametrize(
    "infos",
    [
        [{"a": np.array([None, "x"], object)}, {}, {"a": np.array([{"y": 1}, 2], object)}],
        [{}, {}, {"a": np.array([["x"]], object)}],
        [{"a": None}, {}, {"a": np.array([1.0, 2.0])}],
        [{"a": "x"}, {"a": None}, {}, {"a": np.array([[1, 2]], np.int8)}],
        [{"a": np.array([1.0, 2.0])}, {"a": np.array([3.0, 4.0])}, {"a": None}],
    ],
)
def test_arrays_of_objects_and_arrays_beside_objects(infos: list[dict[str, Any]]) -> None:
    count = len(infos)
    for middle in range(1, count):
        parts = [
            (slice(begin, end), batched(infos[begin:end]))
            for begin, end in ((0, middle), (middle, count))
        ]
        same(merge_infos(parts, count), batched(infos))


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        (5, 7, np.array([5, 5, 7])),
        (np.float32(5), np.float32(7), np.array([5, 5, 7], np.float32)),
        (np.array(5), np.array(7), np.array([5, 5, 7])),
        (np.zeros(3), np.ones(3), np.array([np.zeros(3), np.zeros(3), np.ones(3)])),
        ("x", None, np.array(["x", "x", None], object)),
        ([True, False], [True], np.array([True, False, True])),
        ({"deep": 5}, {"deep": 7}, {"deep": np.array([5, 5, 7])}),
    ],
)
def test_what_an_engine_tells_once_is_for_all_of_its_server(
    first: Any, second: Any, merged: Any
) -> None:
    parts = [(slice(0, 2), {"a": first}), (slice(2, 3), {"a": second})]
    same(merge_infos(parts, 3), {"a": merged})


def test_what_does_not_fit_is_refused_as_upstream_does() -> None:
    infos: list[dict[str, Any]] = [{"a": np.zeros(2)}, {"a": np.zeros(3)}]
    with pytest.raises(ValueError):
        batched(infos)
    with pytest.raises(ValueError):
        merge_infos([(slice(0, 1), batched(infos[:1])), (slice(1, 2), batched(infos[1:]))], 2)


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_masks_that_are_true_everywhere_may_be_short(dtype: Any) -> None:
    first = {"a": np.array([1, 2]), "_a": True, "d": {"x": np.array([5, 6]), "_x": True}}
    second = {"a": np.array([3], dtype), "_a": True, "d": {"x": np.array([7]), "_x": True}}
    whole = np.array([True, True, True])
    same(
        merge_infos([(slice(0, 2), first), (slice(2, 3), second)], 3),
        {"a": np.array([1, 2, 3]), "_a": whole, "d": {"x": np.array([5, 6, 7]), "_x": whole}},
    )
    same(
        with_masks({"a": np.array([1, 2]), "_a": True}, 2),
        {"a": np.array([1, 2]), "_a": np.array([True, True])},
    )
