"""Batches of observations, infos and actions are those that Gymnasium's functions make."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import gymnasium
import hypothesis.strategies as st
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from hypothesis import given, settings

from openenv_gym import errors
from openenv_gym.protocol.codec import decode_packet, encode_packet
from openenv_gym.server.vector.actions import ActionReader
from openenv_gym.server.vector.infos import batch_infos
from openenv_gym.server.vector.observations import ObservationBatcher, detached
from tests.server.vector.conftest import drive
from tests.spaces.compare import assert_identical
from tests.spaces.corpus import SPACES, UNSAMPLED


SAMPLED = {name: space for name, space in SPACES.items() if name not in UNSAMPLED}
COUNT = 3


def samples(space: Any, count: int = COUNT) -> list[Any]:
    seeded = copy.deepcopy(space)
    seeded.seed(5)
    return [seeded.sample() for _ in range(count)]


# -- observations -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLED)
def test_observations_of_all_spaces(name: str) -> None:
    space = SAMPLED[name]
    batcher = ObservationBatcher(space)
    found = samples(space)
    expected: Any = concatenate(space, found, create_empty_array(space, COUNT))
    batch = batcher.stack(found)
    assert_identical(batch, expected)
    mixed = [found[0], found[2], found[2]]
    replaced = batcher.replace(batch, {1: found[2]})
    assert_identical(replaced, concatenate(space, mixed, create_empty_array(space, COUNT)))
    assert_identical(batch, expected)
    assert_identical(batcher.stack([]), create_empty_array(space, 0))
    assert_identical(detached(found[0]), found[0])


class SpaceEnv(gymnasium.Env[Any, Any]):
    """Observes samples of a space; echoes actions of it in the info."""

    def __init__(self, name: str, as_action: bool = False) -> None:
        space = copy.deepcopy(SAMPLED[name])
        self.observation_space = spaces.Discrete(2) if as_action else space
        self.action_space = space if as_action else spaces.Discrete(2)
        self.count = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        self.action = action
        return self.observation_space.sample(), 1.0, self.count % 3 == 0, False, {}

    def last(self) -> Any:
        return self.action


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("name", SAMPLED)
def test_environments_of_all_spaces(name: str, mode: AutoresetMode) -> None:
    ours = drive(SpaceEnv, 2, mode, options={"name": name})
    theirs: Any = SyncVectorEnv([lambda: SpaceEnv(name)] * 2, autoreset_mode=mode)
    assert_identical(ours("reset", [1, 2])[0], theirs.reset(seed=1)[0])
    for _ in range(3):
        actions = np.array([0, 1])
        result = ours("step", actions)
        assert_identical(result[0], theirs.step(actions)[0])
        # And all of it can be sent. (What arrives is little-endian.)
        packet = memoryview(bytearray(b"".join(encode_packet(result[:4]))))
        if name != "box big-endian":
            assert_identical(decode_packet(packet)[0], result[0])
    ours.close()


# -- actions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(SAMPLED) - {"dict empty", "tuple empty"}))
def test_actions_of_all_spaces(name: str) -> None:
    space = SAMPLED[name]
    batched = batch_space(space, COUNT)
    batched.seed(3)
    batch = batched.sample()
    found = ActionReader(space).read(batch, range(COUNT))
    expected = list(iterate(batched, batch))
    assert_identical(found, expected)
    with pytest.raises(errors.InvalidActionError):
        ActionReader(space).read(batch, range(COUNT + 1))


@pytest.mark.parametrize(
    ("space", "batch", "message"),
    [
        (spaces.Discrete(3), np.array([0, 3, 1]), r"actions\[11\] is .*3.* from 0 to 2"),
        (spaces.Discrete(3), np.array([0, -1, 1]), r"actions\[11\]"),
        (spaces.Discrete(3), np.array([0.0, 1.0, 1.0]), r"actions\[12\]"),
        (spaces.Discrete(3, start=5), np.array([5, 7, 0]), r"actions\[12\]"),
        (spaces.Box(-1, 1, (2,)), np.zeros((3, 3)), r"actions\[12\] has shape"),
        (spaces.Box(-1, 1, (2,)), np.array([["a", "b"]] * 3), r"actions\[12\]"),
        (spaces.MultiDiscrete([2, 3]), np.array([[0, 0], [2, 0], [1, 2]]), r"actions\[11\]"),
        (spaces.MultiBinary(2), np.array([[0, 0], [1, 1], [0, 2]], np.int8), r"actions\[12\]"),
        (
            spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(0, 1, (2,))),
            {"a": np.array([0, 1, 2]), "b": np.zeros((3, 2))},
            r"actions\[12\]\['a'\]",
        ),
        (spaces.Dict(a=spaces.Discrete(2)), {"b": np.array([0, 1, 1])}, "batch of 3 actions"),
        (
            spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)]),
            (np.array([0, 1, 1]), np.array([0, 5, 1])),
            r"actions\[11\]\[1\]",
        ),
        (spaces.Text(3), ("a", "b", "long"), r"actions\[12\]"),
        (spaces.Text(3), ("a", "b"), "Expected 3 actions"),
    ],
)
def test_a_wrong_action_is_named(space: Any, batch: Any, message: str) -> None:
    with pytest.raises(errors.InvalidActionError, match=message):
        ActionReader(space, first=10).read(batch, range(3))


def test_lists_of_actions_are_taken() -> None:
    assert ActionReader(spaces.Discrete(3)).read([0, 2, 1], range(3)) == [0, 2, 1]


def test_actions_beyond_the_bounds_of_a_box_are_the_environments_business() -> None:
    batch = np.full((3, 2), 7.0)
    assert_identical(ActionReader(spaces.Box(-1, 1, (2,))).read(batch, range(3)), list(batch))


# -- infos --------------------------------------------------------------------------------------


def reference(infos: list[Any]) -> Any:
    vector: Any = SimpleNamespace(num_envs=len(infos))
    vector._add_info = lambda *args: VectorEnv._add_info(vector, *args)
    batch: dict[str, Any] = {}
    for index, info in enumerate(infos):
        batch = vector._add_info(batch, info, index)
    return batch


def assert_same_infos(ours: Any, theirs: Any) -> None:
    assert list(ours) == list(theirs)
    for key, value in theirs.items():
        if isinstance(value, dict):
            assert_same_infos(ours[key], value)
        elif value.dtype == object:
            assert ours[key].dtype == object and ours[key].shape == value.shape
            for a, b in zip(ours[key].flat, value.flat, strict=True):
                assert a is b or (a != a and b != b) or np.all(a == b), key
        else:
            assert_identical(ours[key], value, key)


INTEGERS = st.integers(-(2**31), 2**31)
KINDS = {
    "bool": st.booleans(),
    "int": INTEGERS,
    "float": st.floats(width=32),
    "mixed": INTEGERS | st.floats(-1e6, 1e6) | st.booleans(),
    "np": st.one_of(
        st.integers(0, 99).map(np.int16),
        st.integers(0, 99).map(np.float32),
        st.integers(0, 99).map(np.uint8),
        st.integers(0, 99).map(np.float64),
    ),
    "np same": st.integers(0, 99).map(np.float32),
    "np bool": st.booleans().map(np.bool_),
    "array": st.integers(0, 9).map(lambda n: np.arange(3) + n),
    "array kinds": st.sampled_from([np.zeros(2, np.int8), np.ones(2, np.float32)]),
    "0-d": st.integers(0, 9).map(np.array),
    "str": st.text(max_size=3),
    "none": st.none(),
    "anything": st.one_of(st.none(), st.text(max_size=2), st.just([1, 2]), st.just((1,))),
    "final_obs": st.integers(0, 9).map(lambda n: np.arange(3) + n),
}
LEAVES: Any = st.fixed_dictionaries({}, optional=KINDS)
INFOS: Any = st.fixed_dictionaries(
    {}, optional={**KINDS, "nested": st.fixed_dictionaries({}, optional={**KINDS, "deep": LEAVES})}
)


@settings(max_examples=150, deadline=None)
@given(st.lists(INFOS, min_size=1, max_size=4))
def test_infos_as_gymnasium_batches_them(infos: list[Any]) -> None:
    failures: list[Any] = []
    try:
        expected = reference(infos)
    except Exception:
        batch_infos(infos, {}, failures)
        assert failures
        return
    assert_same_infos(batch_infos(infos, {}, failures), expected)
    assert not failures


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([k for k in KINDS if k != "mixed"]).flatmap(
        lambda k: st.lists(KINDS[k], min_size=3, max_size=3)
    )
)
def test_infos_of_one_form(values: list[Any]) -> None:
    infos = [{"key": value, "other": 1} for value in values]
    expected = reference(infos)
    assert_same_infos(batch_infos(infos, {}, []), expected)


def test_infos_that_are_no_integers_of_64_bits() -> None:
    failures: list[Any] = []
    batch_infos([{"a": 1}, {"a": 2**70}], {}, failures)
    assert [index for index, _ in failures] == [1]


def test_empty_infos_are_an_empty_batch() -> None:
    assert batch_infos([{}, None, {}], {}, []) == {}
