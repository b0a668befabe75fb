"""A recording as a dataset of Minari's, where Minari is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from openenv_gym import recording
from openenv_gym.errors import RecordingError
from openenv_gym.spaces import space_to_data

from .files import numbers, write


def test_a_dataset_has_the_episodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari", reason="Minari is not installed")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    envs: Any = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    envs = recording.RecordRollout(envs, tmp_path / "x")
    envs.reset(seed=3)
    for _ in range(60):
        envs.step(np.zeros(2, np.int64))
    envs.close()
    with recording.open(tmp_path / "x") as file:
        recording.to_minari(file, "cartpole/left-v0")
        dataset = minari.load_dataset("cartpole/left-v0")
        assert dataset.total_episodes == len(file.episodes) > 8
        assert dataset.observation_space == file.observation_space
        for found, episode in zip(dataset.iterate_episodes(), file.episodes, strict=True):
            assert np.array_equal(found.observations, episode.observations)
            assert np.array_equal(found.actions, episode.actions)
            assert np.array_equal(found.rewards, episode.rewards)
            assert found.terminations[-1] == episode.terminated
            assert found.truncations[-1] == (not episode.complete)


def test_what_minari_has_no_place_for_is_named(tmp_path: Path) -> None:
    pytest.importorskip("minari", reason="Minari is not installed")
    space = spaces.Dict(words=spaces.Tuple([spaces.Sequence(spaces.Discrete(3))]))
    described = {"observation": space_to_data(space), "action": space_to_data(spaces.Discrete(2))}
    path = write(tmp_path / "x", numbers(3), metadata={"vector": None, "spaces": described})
    with (
        recording.open(path) as file,
        pytest.raises(RecordingError, match=r"observation\['words'\]\[0\] is a Sequence"),
    ):
        recording.to_minari(file, "x/y-v0")


def test_without_minari_it_says_what_to_install(tmp_path: Path) -> None:
    try:
        import minari  # noqa: F401
    except ModuleNotFoundError:
        with (
            recording.open(write(tmp_path / "x", numbers(3))) as file,
            pytest.raises(RecordingError, match=r"openenv-gym\[minari\]"),
        ):
            recording.to_minari(file, "x/y-v0")
    else:
        pytest.skip("Minari is installed")
