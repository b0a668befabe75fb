"""`to_minari`: a recording as a dataset of Minari's, where that has a place for what it holds."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from gymnasium import spaces

from openenv_gym.errors import RecordingError
from openenv_gym.recording.episodes import Episode
from openenv_gym.recording.reader import RolloutFile


__all__ = ["to_minari"]

# Minari 0.5's own serialisers (minari.serialization, minari.dataset.minari_storage).
_SPACES = (
    spaces.Box,
    spaces.Discrete,
    spaces.MultiDiscrete,
    spaces.MultiBinary,
    spaces.Text,
)


def to_minari(
    file: RolloutFile, dataset_id: str, *, data_format: str | None = None, **about: Any
) -> Any:
    """Make a dataset of the episodes of a recording.

    What ended as the environment has it, and what was cut off as truncated. Infos are left out:
    Minari wants the same keys and shapes in all steps, which environments do not promise.

    Args:
        file: The recording.
        dataset_id: Minari's name for it, such as ``"cartpole/random-v0"``.
        data_format: ``"hdf5"`` or ``"arrow"``; None: Minari's default.
        **about: What Minari keeps about a dataset: ``author``, ``description`` and the like.

    Returns:
        Minari's dataset.

    Raises:
        RecordingError: Minari is missing, or has no place for the spaces.
    """
    try:
        minari = importlib.import_module("minari")
        buffers = importlib.import_module("minari.data_collector")
    except ModuleNotFoundError as error:
        raise RecordingError(
            f"Minari is not installed: {error}.", hint='pip install "openenv-gym[minari]"'
        ) from error
    known = file.observation_space, file.action_space
    for name, space in zip(("observation", "action"), known, strict=True):
        _check(space, name)
    episodes = [_buffer(buffers.EpisodeBuffer, episode) for episode in file.episodes]
    if not episodes:
        raise RecordingError("The recording has no episode.", field="file")
    return minari.create_dataset_from_buffers(
        dataset_id,
        buffer=episodes,
        observation_space=known[0],
        action_space=known[1],
        data_format=data_format,
        **about,
    )


def _check(space: Any, path: str) -> None:
    if isinstance(space, spaces.Dict):
        for key, inner in space.spaces.items():
            _check(inner, f"{path}[{key!r}]")
    elif isinstance(space, spaces.Tuple):
        for index, inner in enumerate(space.spaces):
            _check(inner, f"{path}[{index}]")
    elif type(space) not in _SPACES:
        raise RecordingError(
            f"{path} is a {type(space).__name__}, and Minari has no place for it.",
            field=path,
            hint="Keep the recording.",
        )


def _buffer(make: Any, episode: Episode) -> Any:
    steps = len(episode)
    terminations = np.zeros(steps, np.bool_)
    truncations = np.zeros(steps, np.bool_)
    terminations[-1] = episode.terminated
    truncations[-1] = episode.truncated or not episode.complete
    return make(
        id=episode.number,
        seed=episode.seed,
        options=None,
        observations=episode.observations,
        actions=episode.actions,
        rewards=episode.rewards.tolist(),
        terminations=terminations.tolist(),
        truncations=truncations.tolist(),
        infos={},
    )
