"""Batches taken apart and put together are what Gymnasium's `concatenate` makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from openenv_gym.errors import InvalidActionError
from openenv_gym.vector import slices
from openenv_gym.vector.batches import batches_of
from tests.vector.worlds import same


SPACES = [
    spaces.Box(-1, 1, (2, 3), np.float32),
    spaces.Box(0, 255, (), np.uint8),
    spaces.Discrete(5, start=-2),
    spaces.MultiDiscrete([3, 4]),
    spaces.MultiBinary((2, 2)),
    spaces.Text(5),
    spaces.Graph(spaces.Box(0, 1, (2,)), spaces.Discrete(3)),
    spaces.Sequence(spaces.Discrete(4)),
    spaces.OneOf((spaces.Discrete(2), spaces.Box(0, 1))),
    spaces.Dict(a=spaces.Discrete(3), b=spaces.Tuple((spaces.Text(3), spaces.Box(0, 1)))),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("num_servers", [1, 2, 3])
def test_apart_and_together(space: Any, num_servers: int) -> None:
    space.seed(1)
    samples = [space.sample() for _ in range(5)]
    batch = concatenate(space, samples, create_empty_array(space, 5))
    batches = batches_of(space)
    rows = [slice(first, first + size) for first, size in slices(5, num_servers)]
    parts = [(each, batches.take(batch, each)) for each in rows]
    same(batches.join(parts, 5), batch)
    order = np.array([3, 0, 4])
    taken = batches.take(batch, order)
    same(taken, concatenate(space, [samples[i] for i in order], create_empty_array(space, 3)))
    for place, index in enumerate(order):
        one = concatenate(space, [batches.sample(taken, place)], create_empty_array(space, 1))
        same(one, concatenate(space, [samples[index]], create_empty_array(space, 1)))
    zeros = batches.join([], 5)
    again = batches.join([(slice(None), batch)], 5, zeros)
    same(again, batch)
    assert again is zeros or isinstance(again, tuple)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_actions_that_were_sampled_pass(space: Any) -> None:
    batched = batch_space(space, 4)
    batched.seed(1)
    actions = batched.sample()
    checked = batches_of(space).check(actions, 4, "actions")
    same(checked, actions)
    with pytest.raises((InvalidActionError, TypeError)):
        batches_of(space).check(actions, 5, "actions")
    with pytest.raises((InvalidActionError, TypeError)):
        batches_of(space).check(7, 4, "actions")


@pytest.mark.parametrize(
    ("num_envs", "num_servers", "expected"),
    [
        (5, 1, [(0, 5)]),
        (5, 2, [(0, 3), (3, 2)]),
        (4, 4, [(0, 1), (1, 1), (2, 1), (3, 1)]),
        (7, 3, [(0, 3), (3, 2), (5, 2)]),
    ],
)
def test_slices(num_envs: int, num_servers: int, expected: Any) -> None:
    assert slices(num_envs, num_servers) == expected
