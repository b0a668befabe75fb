"""An episode as a page: one HTML file that plays it, without a network."""

from __future__ import annotations

import base64
import importlib.resources
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openenv_gym.errors import RecordingError, RecordingWriteError
from openenv_gym.models.tool_results import is_picture, picture_to_png
from openenv_gym.recording.episodes import Episode, samples_of
from openenv_gym.recording.reader import RolloutFile


__all__ = ["episode_page", "picture_in", "write_page"]

_MAX_STEPS = 20_000
_MAX_TEXT = 4_000  # characters of an observation, action or info
_MAX_NUMBERS = 64  # of an array, which is shown in short beyond that
_SMALLEST = 16  # pixels of a side; what is smaller is no picture
_STACKED = 16  # frames that are stacked in front


def write_page(
    file: RolloutFile, episode: Episode, path: Path, *, frames: Sequence[Any] | None = None
) -> None:
    """Write the page of an episode.

    Args:
        file: The recording.
        episode: One of its episodes.
        path: Where to; a file that is there is replaced.
        frames: What `render` returned after the reset and after each step. None: those of the
            recording, or pictures in the observations, where there are some.

    Raises:
        RecordingError: The episode is too long for a page.
        RecordingWriteError: The page cannot be written.
    """
    text = episode_page(file, episode, frames=frames)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecordingWriteError(
            f"The page {path} cannot be written: {error.strerror or error}.", field="path"
        ) from error


def episode_page(
    file: RolloutFile, episode: Episode, *, frames: Sequence[Any] | None = None
) -> str:
    """Return the page of an episode; see `write_page`."""
    if len(episode) > _MAX_STEPS:
        raise RecordingError(
            f"Episode {episode.number} has {len(episode)} steps; a page takes {_MAX_STEPS}.",
            field="episode",
        )
    observations = samples_of(episode.observations, len(episode) + 1)
    actions = samples_of(episode.actions, len(episode))
    infos = [episode.reset_info, *episode.infos]
    rewards = [0.0, *episode.rewards.tolist()]
    if frames is None:
        frames = episode.frames or [picture_in(each) for each in observations]
    pictures, shown = _pictures(frames)
    texts = [frame if isinstance(frame, str) else None for frame in frames]
    steps = [
        {
            "action": None if at == 0 else _text(actions[at - 1]),
            "observation": _observed(observations[at], texts[at] if at < len(texts) else None),
            "reward": rewards[at] if math.isfinite(rewards[at]) else None,
            "info": _text(infos[at]),
        }
        for at in range(len(observations))
    ]
    environment = file.metadata.get("environment") or {}
    how = "terminated" if episode.terminated else "truncated" if episode.truncated else "cut off"
    facts = [
        f"{len(episode)} steps",
        f"return {float(episode.rewards.sum()):g}",
        how,
        f"seed {episode.seed}" if episode.seed is not None else "",
        f"sub-environment {episode.sub_env}" if file.num_envs else "",
        str(file.metadata.get("created", "")),
    ]
    data = {
        "title": f"{environment.get('id') or 'Recording'}, episode {episode.number}",
        "facts": ", ".join(filter(None, facts)),
        "ended": how,
        "steps": steps,
        "frames": pictures,
        "shown": shown,
        "rate": 30 if len(steps) > 120 else 5,
    }
    page = importlib.resources.files(__package__).joinpath("page.html").read_text("utf-8")
    # Nothing in it ends the script or begins markup.
    packed = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return page.replace("@DATA@", packed)


def picture_in(observation: Any) -> Any:
    """Return the picture in an observation, the last one of a stack; None where there is none."""
    if isinstance(observation, Mapping):
        found = (picture_in(each) for each in observation.values())
        return next((picture for picture in found if picture is not None), None)
    if isinstance(observation, tuple):
        found = (picture_in(each) for each in observation)
        return next((picture for picture in found if picture is not None), None)
    if not isinstance(observation, np.ndarray) or observation.dtype != np.uint8:
        return None
    if is_picture(observation) and min(observation.shape[:2]) >= _SMALLEST:
        return observation
    if observation.ndim in (3, 4) and observation.shape[0] <= _STACKED:
        return picture_in(observation[-1])
    return None


def _pictures(frames: Iterable[Any]) -> tuple[list[str], list[int]]:
    """Return each picture once, as a data URL, and the number of the one at each step."""
    urls: dict[bytes, int] = {}
    shown = []
    for frame in frames:
        if isinstance(frame, np.ndarray) and is_picture(frame):
            png = picture_to_png(np.ascontiguousarray(frame))
            shown.append(urls.setdefault(png, len(urls)))
        else:
            shown.append(shown[-1] if shown else 0)
    heads = "data:image/png;base64,"
    return [heads + base64.b64encode(png).decode() for png in urls], shown


def _observed(observation: Any, drawn: str | None) -> str:
    text = _text(observation)
    return f"{drawn[:_MAX_TEXT]}\n\n{text}" if drawn else text


def _text(value: Any) -> str:
    """Return a value for people: texts as they are, arrays short."""
    if isinstance(value, str):
        text: str = value
    elif isinstance(value, Mapping):
        text = "\n".join(f"{key}: {_text(each)}" for key, each in value.items())
    elif isinstance(value, (list, tuple)) and any(isinstance(each, Mapping) for each in value):
        text = "\n\n".join(map(_text, value))
    elif isinstance(value, np.ndarray):
        text = np.array2string(value, threshold=_MAX_NUMBERS, edgeitems=3)
        if value.size > _MAX_NUMBERS:
            text = f"{value.dtype} {value.shape}" + ("" if value.ndim > 2 else f"\n{text}")
    elif isinstance(value, np.generic):
        text = str(value.item())
    else:
        text = str(value)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]} ..."
