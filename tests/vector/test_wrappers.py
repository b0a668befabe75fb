"""Gymnasium's vector wrappers, unmodified, give the same around ours as around `SyncVectorEnv`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as wrappers

from tests.vector.worlds import same


Pair = Callable[..., tuple[Any, Any]]

CONTAINERS = pytest.param("containers", marks=pytest.mark.container)
NEXT, SAME, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED
ALL = [NEXT, SAME, DISABLED]


def wraps(
    name: str, wrap: Any, modes: list[AutoresetMode], env_id: str = "CartPole-v1"
) -> list[Any]:
    return [pytest.param(wrap, env_id, mode, id=f"{name}-{mode.value}") for mode in modes]


@pytest.fixture
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Return a function that makes ours, over two servers, and Gymnasium's own."""
    made: list[Any] = []

    def make(
        env_id: str = "CartPole-v1",
        mode: AutoresetMode = NEXT,
        where: str = "thread",
        num_envs: int = 3,
        **kwargs: Any,
    ) -> tuple[Any, Any]:
        ours = gymnasium.make_vec(
            f"openenv/{env_id}",
            num_envs=num_envs,
            num_servers=2,
            provider="thread" if where == "thread" else request.getfixturevalue(where),
            autoreset_mode=mode,
            **kwargs,
        )
        made.append(ours)
        theirs = SyncVectorEnv(
            [lambda: gymnasium.make(env_id, **kwargs)] * num_envs, autoreset_mode=mode
        )
        made.append(theirs)
        return ours, theirs

    yield make
    for env in made:
        env.close()


def compare(ours: Any, theirs: Any, steps: int, convert: Callable[[Any], Any] = np.copy) -> None:
    """Compare a rollout through wrappers.

    Args:
        ours: Ours.
        theirs: What says how it ought to be.
        steps: How long it is.
        convert: Makes of a batch of actions what the wrappers take.
    """
    mode = theirs.unwrapped.metadata["autoreset_mode"]
    same(plain(ours.reset(seed=3)), plain(theirs.reset(seed=3)))
    theirs.action_space.seed(3)
    ended = 0
    for _ in range(steps):
        actions = theirs.action_space.sample()
        got = plain(ours.step(convert(actions)))
        expected = plain(theirs.step(convert(actions)))
        same(got, expected)
        over = np.logical_or(np.asarray(expected[2][-1]), np.asarray(expected[3][-1]))
        ended += int(over.sum())
        if mode is DISABLED and over.any():
            again = [env.reset(options={"reset_mask": over.copy()}) for env in (ours, theirs)]
            same(plain(again[0]), plain(again[1]))
    assert ended > 5


def plain(value: Any) -> Any:
    """Return results in a form that can be compared: tensors with what they are, and no times."""
    if isinstance(value, dict):
        # Seconds, of `RecordEpisodeStatistics`.
        return {
            key: plain(each)
            for key, each in value.items()
            if not (key == "t" and {"r", "l"} <= value.keys())
        }
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, list):
        return list(map(plain, value))
    if isinstance(value, np.ndarray):
        return ("array", value)
    if hasattr(value, "numpy"):
        return ("tensor", str(value.dtype), str(value.device), value.numpy())
    return value


@pytest.mark.parametrize("where", ["thread", CONTAINERS])
@pytest.mark.parametrize(
    ("wrap", "env_id", "mode"),
    [
        *wraps("statistics", wrappers.RecordEpisodeStatistics, [NEXT, SAME]),
        *wraps("observation", wrappers.NormalizeObservation, [NEXT]),
        *wraps("reward", wrappers.NormalizeReward, ALL),
        *wraps("infos", wrappers.DictInfoToList, ALL),
        *wraps("flatten", wrappers.FlattenObservation, [NEXT, DISABLED], "Blackjack-v1"),
        *wraps(
            "several",
            lambda env: wrappers.DictInfoToList(
                wrappers.ClipReward(wrappers.RecordEpisodeStatistics(env), 0.0, 0.5)
            ),
            [NEXT, SAME],
        ),
    ],
)
def test_the_same(pair: Pair, wrap: Any, env_id: str, mode: AutoresetMode, where: str) -> None:
    ours, theirs = (wrap(env) for env in pair(env_id, mode, where))
    assert ours.observation_space == theirs.observation_space
    compare(ours, theirs, 150)


def test_statistics_of_a_partial_reset(pair: Pair) -> None:
    """Upstream, the mask is taken out of the options, and all statistics begin anew (B5)."""
    env = wrappers.RecordEpisodeStatistics(pair(mode=DISABLED)[0])
    env.reset(seed=1)
    for _ in range(4):
        env.step(env.action_space.sample())
    env.reset(options={"reset_mask": np.array([True, False, False])})
    assert env.episode_lengths.tolist() == [0, 4, 4]


@pytest.mark.torch
@pytest.mark.parametrize("where", ["thread", CONTAINERS])
@pytest.mark.parametrize("mode", [NEXT, DISABLED])  # with SameStep it fails around Gymnasium's own
def test_to_torch(pair: Pair, mode: AutoresetMode, where: str) -> None:
    torch = pytest.importorskip(
        "torch", reason="PyTorch is not installed here; `python3 dev.py torch` runs this test"
    )
    ours, theirs = (wrappers.NumpyToTorch(env) for env in pair(mode=mode, where=where))
    assert isinstance(ours.reset(seed=1)[0], torch.Tensor)
    compare(ours, theirs, 150, torch.tensor)


# Not in threads: pygame does not draw in several of them at once.
@pytest.mark.parametrize("where", ["processes", CONTAINERS])
def test_a_video(pair: Pair, tmp_path: Path, where: str) -> None:
    pytest.importorskip("moviepy")
    ours, theirs = (
        wrappers.RecordVideo(
            env,
            str(tmp_path / name),
            step_trigger=lambda step: step % 20 == 3,
            video_length=5,
        )
        for name, env in zip(
            ("ours", "theirs"), pair(where=where, render_mode="rgb_array"), strict=True
        )
    )
    theirs.action_space.seed(1)
    ours.reset(seed=1)
    theirs.reset(seed=1)
    compared = 0
    for _ in range(30):
        actions = theirs.action_space.sample()
        same(ours.step(actions), theirs.step(actions))
        same(ours.recorded_frames, theirs.recorded_frames)
        compared += len(theirs.recorded_frames)
    assert compared > 20
    names = ["rl-video-step-23.mp4", "rl-video-step-3.mp4"]
    for name in ("ours", "theirs"):
        made = sorted((tmp_path / name).iterdir())
        assert [path.name for path in made] == names
        assert all(path.stat().st_size for path in made)


def test_modes_that_wrappers_ask_for(pair: Pair) -> None:
    with pytest.raises((ValueError, AssertionError)):
        wrappers.NormalizeObservation(pair(mode=SAME)[0])
    assert pair(mode=SAME)[0].metadata["autoreset_mode"] is SAME
