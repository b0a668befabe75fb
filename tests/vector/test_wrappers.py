"""Gymnasium's vector wrappers, unmodified, give the same around ours as around `SyncVectorEnv`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import vector as wrappers

from tests.vector.worlds import same


@pytest.fixture
def pair() -> Iterator[Callable[..., tuple[Any, Any]]]:
    made: list[Any] = []

    def make(mode: str = "NextStep", **kwargs: Any) -> tuple[Any, Any]:
        ours = gymnasium.make_vec(
            "openenv/CartPole-v1",
            num_envs=3,
            num_servers=2,
            provider="thread",
            autoreset_mode=mode,
            **kwargs,
        )
        theirs = gymnasium.make_vec(
            "CartPole-v1",
            num_envs=3,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": mode},
            **kwargs,
        )
        made.extend([ours, theirs])
        return ours, theirs

    yield make
    for env in made:
        env.close()


@pytest.mark.parametrize(
    "wrap",
    [
        wrappers.RecordEpisodeStatistics,
        wrappers.NormalizeObservation,
        wrappers.NormalizeReward,
        wrappers.DictInfoToList,
        wrappers.FlattenObservation,
        lambda env: wrappers.ClipReward(wrappers.RecordEpisodeStatistics(env), 0.0, 0.5),
        lambda env: wrappers.DictInfoToList(wrappers.RecordEpisodeStatistics(env)),
    ],
    ids=["stats", "obs", "reward", "infos", "flatten", "clip", "both"],
)
def test_the_same(pair: Callable[..., tuple[Any, Any]], wrap: Any) -> None:
    ours, theirs = (wrap(env) for env in pair())
    compared = slice(0, 2)
    same(ours.reset(seed=3)[compared], theirs.reset(seed=3)[compared])
    ours.action_space.seed(3)
    for _ in range(150):
        actions = ours.action_space.sample()
        got, expected = ours.step(actions), theirs.step(actions)
        same(got[:4], expected[:4])
        for infos in (got[4], expected[4]):
            for each in infos if isinstance(infos, list) else [infos]:
                each.get("episode", {}).pop("t", None)  # seconds
        same(got[4], expected[4])


def test_statistics_of_a_partial_reset(pair: Callable[..., tuple[Any, Any]]) -> None:
    """Upstream, the mask is taken out of the options, and all statistics begin anew (B5)."""
    env = wrappers.RecordEpisodeStatistics(pair("Disabled")[0])
    env.reset(seed=1)
    for _ in range(4):
        env.step(env.action_space.sample())
    env.reset(options={"reset_mask": np.array([True, False, False])})
    assert env.episode_lengths.tolist() == [0, 4, 4]


def test_to_torch(pair: Callable[..., tuple[Any, Any]]) -> None:
    torch = pytest.importorskip("torch")
    env = wrappers.NumpyToTorch(pair()[0])
    observations, _ = env.reset(seed=1)
    assert isinstance(observations, torch.Tensor)
    observations, rewards, *_ = env.step(torch.tensor([0, 1, 0]))
    assert rewards.tolist() == [1, 1, 1]


def test_video(tmp_path: Any) -> None:
    pytest.importorskip("moviepy")
    # In processes: pygame does not draw in several threads at once.
    ours = gymnasium.make_vec(
        "openenv/CartPole-v1",
        num_envs=2,
        num_servers=2,
        provider="process",
        render_mode="rgb_array",
    )
    env = wrappers.RecordVideo(
        ours, str(tmp_path / "videos"), step_trigger=lambda step: step == 0, video_length=4
    )
    env.reset(seed=1)
    for _ in range(6):
        env.step(env.action_space.sample())
    env.close()
    assert list(tmp_path.glob("videos/*.mp4"))


def test_modes_that_wrappers_ask_for(pair: Callable[..., tuple[Any, Any]]) -> None:
    with pytest.raises((ValueError, AssertionError)):
        wrappers.NormalizeObservation(pair("SameStep")[0])
    ours, _ = pair("SameStep")
    assert ours.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
