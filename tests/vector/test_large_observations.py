"""Observations so large that they take the way through shared memory, into their rows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from tests.support.cutting import CuttingAddress
from tests.vector.worlds import Fleet, same


class FramesEnv(gymnasium.Env[Any, Any]):
    """Shows frames of random numbers; episodes end at random."""

    metadata = {"render_modes": []}

    def __init__(self, shape: tuple[int, ...] = (80, 70, 3), kind: str = "box") -> None:
        self.action_space = spaces.Discrete(3)
        frames = spaces.Box(0, 255, shape, np.uint8)
        self.kind = kind
        self.observation_space: gymnasium.Space[Any] = (
            frames if kind == "box" else spaces.Dict(frame=frames, lives=spaces.Discrete(9))
        )
        self._shape = shape

    def _observe(self) -> Any:
        frame = self.np_random.integers(0, 256, self._shape, np.uint8)
        return frame if self.kind == "box" else {"frame": frame, "lives": 3}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._observe(), {"score": 0}

    def step(self, action: Any) -> Any:
        over = bool(self.np_random.random() < 0.1)
        return self._observe(), float(action), over, False, {"score": int(action)}


def play(ours: Any, theirs: Any, mode: AutoresetMode, steps: int = 60) -> None:
    """Compare, and keep what was handed out: nothing that comes later may change it."""
    kept = []
    got, wanted = ours.reset(seed=5), theirs.reset(seed=5)
    same(got, wanted)
    rng = np.random.default_rng(1)
    for _ in range(steps):
        kept.append((got[0], wanted[0]))
        actions = rng.integers(0, 3, ours.num_envs)
        got, wanted = ours.step(actions), theirs.step(actions)
        same(got, wanted)
        over = np.logical_or(got[2], got[3])
        if mode is AutoresetMode.DISABLED and over.any():
            options = {"reset_mask": over}
            got, wanted = ours.reset(options=dict(options)), theirs.reset(options=dict(options))
            same(got, wanted)
    if ours.copy:
        for one, other in kept:
            same(one, other)
            if isinstance(one, np.ndarray):
                assert one.flags.writeable and one.flags.c_contiguous


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("num_servers", [1, 2, 3])
@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("kind", ["box", "dict"])
def test_as_in_one_process(
    fleet: Callable[..., Fleet], mode: AutoresetMode, num_servers: int, copy: bool, kind: str
) -> None:
    ours = fleet(
        FramesEnv, 5, num_servers, autoreset_mode=mode, copy=copy, options={"kind": kind}
    ).env
    theirs = SyncVectorEnv([lambda: FramesEnv(kind=kind)] * 5, autoreset_mode=mode)
    play(ours, theirs, mode)
    if not copy and kind == "box":
        actions = np.zeros(5, np.int64)
        assert ours.step(actions)[0] is ours.step(actions)[0] is ours.observations


@pytest.mark.parametrize("on_failure", ["raise", "restart"])
def test_what_the_caller_does_to_his_observations_is_his_own_business(
    fleet: Callable[..., Fleet], on_failure: str
) -> None:
    mode = AutoresetMode.DISABLED
    ours = fleet(FramesEnv, 4, 2, autoreset_mode=mode, on_failure=on_failure).env
    theirs = SyncVectorEnv([FramesEnv] * 4, autoreset_mode=mode)
    observations, _ = ours.reset(seed=3)
    theirs.reset(seed=3)
    observations[:] = 0
    for mask in ([True, False, False, False], [False, False, True, False]):
        got = ours.reset(seed=4, options={"reset_mask": np.array(mask)})
        same(got, theirs.reset(seed=4, options={"reset_mask": np.array(mask)}))
        got[0][:] = 0
    theirs.close()


@pytest.mark.skipif(sys.platform != "linux", reason="anonymous files are Linux's")
def test_cuts_lose_nothing(fleet: Callable[..., Fleet]) -> None:
    networks: list[CuttingAddress] = []

    def cutting(server: Any) -> CuttingAddress:
        networks.append(CuttingAddress(server, descriptors=True))
        return networks[-1]

    ours = fleet(FramesEnv, 4, 2, address=cutting).env
    theirs = SyncVectorEnv([FramesEnv] * 4)
    same(ours.reset(seed=5), theirs.reset(seed=5))
    rng = np.random.default_rng(1)
    kept = []
    for number in range(60):
        setattr(networks[number % 2], "cut_down" if number % 3 else "cut_up", number)
        actions = rng.integers(0, 3, 4)
        got, wanted = ours.step(actions), theirs.step(actions)
        same(got, wanted)
        kept.append((got[0], wanted[0]))
    for one, other in kept:
        same(one, other)
    assert sum(network.cuts for network in networks) > 40
    assert all(network.bytes_down < 60 * 16_000 for network in networks)  # less than half
    ours.close()
    for network in networks:
        network.close()


def test_sent_and_received_one_by_one(fleet: Callable[..., Fleet]) -> None:
    ours = fleet(FramesEnv, 4, 2).env
    theirs = SyncVectorEnv([FramesEnv] * 4)
    ours.reset(seed=5)
    theirs.reset(seed=5)
    steps = 25
    wanted = [theirs.step(np.ones(4, np.int64))[0] for _ in range(steps)]
    kept: dict[int, list[Any]] = {index: [] for index in range(4)}
    ours.send(np.ones(4, np.int64))
    while any(len(frames) < steps for frames in kept.values()):
        batch = ours.recv(min_envs=1)
        for place, index in enumerate(batch.env_ids):
            kept[int(index)].append(batch.observations[place])
        again = np.array([i for i in batch.env_ids if len(kept[int(i)]) < steps], np.int64)
        if len(again):
            ours.send(np.ones(len(again), np.int64), again)
    for index, frames in kept.items():
        for number in range(steps):
            same(frames[number], wanted[number][index])
    theirs.close()
