"""Observations whose form differs from step to step, and that are samples of one space all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from openenv_gym import recording
from openenv_gym.spaces import space_to_data

from ..protocol.codec.packets import strict_equal
from .files import write


STEPS = 30
PAIR = spaces.Dict(a=spaces.Box(-np.inf, np.inf, (2,), np.float64), b=spaces.Discrete(99))
ROW = spaces.Tuple([spaces.Discrete(99), PAIR])


def pair(at: int, turned: bool) -> dict[str, Any]:
    a, b = np.array([at, -at], np.float64), (np.int64(at) if turned else at)
    return {"b": b, "a": a} if turned else {"a": a, "b": b}


def row(at: int, turned: bool) -> Any:
    return [at, pair(at, turned)] if turned else (at, pair(at, turned))


def batched(space: Any, samples: list[Any], turned: bool) -> Any:
    """Return a batch of samples, with its parts in another order or a list in place of a tuple."""
    if isinstance(space, spaces.Dict):
        keys = ["b", "a"] if turned else ["a", "b"]
        return {key: np.array([sample[key] for sample in samples]) for key in keys}
    first = np.array([sample[0] for sample in samples])
    parts = first, batched(PAIR, [sample[1] for sample in samples], turned)
    return list(parts) if turned else parts


@pytest.mark.parametrize("num_envs", [0, 2])
@pytest.mark.parametrize(("space", "make"), [(PAIR, pair), (ROW, row)], ids=["dict", "tuple"])
@pytest.mark.parametrize("turns", ["never", "at the start", "now and then", "later"])
def test_observations_are_stacked_whatever_form_they_have(
    tmp_path: Path, space: Any, make: Any, num_envs: int, turns: str
) -> None:
    def turned(at: int) -> bool:
        return {"never": False, "at the start": at == 0, "now and then": at % 3 == 1}.get(
            turns, at > 15
        )

    def observation(at: int) -> Any:
        if not num_envs:
            return make(at, turned(at))
        return batched(space, [make(at, False), make(at + 50, False)], turned(at))

    flags: Any = np.zeros(num_envs, np.bool_) if num_envs else False
    rewards: Any = np.zeros(num_envs) if num_envs else 0.0
    rows: list[Any] = [recording.Reset(0, 1, None, observation(0), {})]
    for at in range(STEPS):
        rows.append(recording.Step(at, 0, observation(at + 1), rewards, flags, flags, {}))
    described = {"observation": space_to_data(space), "action": None}
    vector = {"num_envs": num_envs, "autoreset_mode": "NextStep"} if num_envs else None
    path = write(
        tmp_path / "x",
        rows,
        metadata={"vector": vector, "spaces": described},
        num_envs=num_envs,
        limits=recording.Limits(20, 1 << 20, 60.0),
    )
    with recording.open(path) as file:
        for episode in file:
            seen = episode.observations
            numbers = np.arange(STEPS + 1) + 50 * episode.sub_env
            if space is ROW:
                assert type(seen) is tuple and strict_equal(seen[0], numbers)
                seen = seen[1]
            assert seen.keys() == {"a", "b"} and np.array_equal(seen["b"], numbers)
            assert strict_equal(seen["a"], np.stack([numbers, -numbers], axis=1).astype(float))


def test_what_is_no_sample_of_the_space_is_a_sample_in_a_list(tmp_path: Path) -> None:
    observations: list[Any] = [pair(0, False), {"a": np.zeros(2)}, {**pair(2, False), "c": 1}, None]
    observations += [{"a": np.zeros(3), "b": 3}, pair(5, True)]
    rows: list[Any] = [recording.Reset(0, 1, None, observations[0], {})]
    for at, seen in enumerate(observations[1:]):
        rows.append(recording.Step(at, 0, seen, 0.0, False, False, {}))
    described = {"observation": space_to_data(PAIR), "action": None}
    path = write(tmp_path / "x", rows, metadata={"vector": None, "spaces": described})
    with recording.open(path) as file:
        seen = file.episodes[0].observations
        assert type(seen) is list and seen[3] is None
        for found, kept in zip(seen, observations, strict=True):
            assert found is kept is None or list(found) == list(kept)
            assert found is None or np.array_equal(found["a"], kept["a"])
