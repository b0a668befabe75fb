"""`rescore`: rewards by another rubric, of what was recorded, without the environment."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from openenv_gym.errors import RecordingError
from openenv_gym.recording.episodes import samples_of
from openenv_gym.recording.reader import RolloutFile
from openenv_gym.rubrics import load_rubric
from openenv_gym.server.scored_env import SampleObservation
from openenv_gym.server.scoring import begin_scoring, score_step
from openenv_gym.spaces import ModelMapping


if TYPE_CHECKING:
    from openenv_gym.models import Action, Observation
    from openenv_gym.recording.episodes import Episode

__all__ = ["Rescored", "Score", "rescore"]

REWARD = "reward"
_COMPONENTS = "reward_components"
_OF_RUBRICS = frozenset({_COMPONENTS, "reward_fallbacks", "step_rewards"})


@dataclass(frozen=True)
class Score:
    """A reward, or a component of it, in all steps.

    Attributes:
        recorded: As it is in the file; NaN where it is not. Shape (steps,), float64.
        rescored: As the rubric has it; NaN where it did not run. Shape (steps,), float64.
    """

    recorded: np.ndarray[Any, Any]
    rescored: np.ndarray[Any, Any]

    @property
    def differing(self) -> int:
        """Steps in which they differ, to the bit; NaN is NaN."""
        same = self.recorded.view(np.int64) == self.rescored.view(np.int64)
        return int((~(same | (np.isnan(self.recorded) & np.isnan(self.rescored)))).sum())

    @property
    def means(self) -> tuple[float, float]:
        """Means before and after, of the steps that have one; NaN where none has."""
        return _mean(self.recorded), _mean(self.rescored)


@dataclass(frozen=True)
class Rescored:
    """What `rescore` returns.

    Attributes:
        scores: By ``reward`` and the dotted names of the components, recorded or new.
        episodes: Number of the episode of each step. Shape (steps,), int64.
        steps: Number of each step within its episode. Shape (steps,), int64.
    """

    scores: dict[str, Score]
    episodes: np.ndarray[Any, Any]
    steps: np.ndarray[Any, Any]


def rescore(
    file: RolloutFile,
    rubric: Any,
    *,
    action_model: type[Action] | None = None,
    observation_model: type[Observation] | None = None,
) -> Rescored:
    """Call a rubric for each recorded step of each episode.

    Args:
        file: The recording.
        rubric: A rubric, or ``"module:attribute"`` (docs/rubrics.md).
        action_model: What the rubric takes for an action; None: the sample of the space.
        observation_model: What it takes for an observation; None: a `SampleObservation`, whose
            `reward` is the recorded one and whose `metadata` is the info.

    Raises:
        InvalidOptionError: The rubric is none.
        RubricError: It has no score for a step.
        InvalidActionError: A sample is none of the model.
        RecordingError: There is no episode.
    """
    found = load_rubric(rubric)
    if found is None:
        raise RecordingError(
            f"rubric={rubric!r}: expected a rubric or 'module:attribute'.", field="rubric"
        )
    to_action: Any = ModelMapping.of(action_model).to_model if action_model else _same
    observe: Any = _Observing(observation_model)
    rows: list[dict[str, tuple[float, float]]] = []
    places: list[tuple[int, int]] = []
    for episode in file.episodes:
        begin_scoring(found)
        for step, (action, seen, recorded) in enumerate(_steps(episode, to_action, observe)):
            score_step(found, action, seen)
            new = {REWARD: float(seen.reward or 0.0), **seen.metadata[_COMPONENTS]}
            names = [*recorded, *(name for name in new if name not in recorded)]
            rows.append(
                {name: (recorded.get(name, math.nan), new.get(name, math.nan)) for name in names}
            )
            places.append((episode.number, step))
    if not rows:
        raise RecordingError("The recording has no episode to be scored.", field="file")
    nothing = math.nan, math.nan
    scores = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        pairs = np.array([row.get(name, nothing) for row in rows], np.float64)
        scores[name] = Score(pairs[:, 0].copy(), pairs[:, 1].copy())
    where = np.array(places, np.int64)
    return Rescored(scores, where[:, 0], where[:, 1])


class _Observing:
    """Makes what a rubric sees."""

    def __init__(self, model: type[Observation] | None) -> None:
        self._to_model = ModelMapping.of(model).to_model if model is not None else None

    def __call__(self, sample: Any, known: dict[str, Any]) -> Observation:
        if self._to_model is None:
            return SampleObservation.model_construct(value=sample, **known)
        return self._to_model(sample).model_copy(update=known)


def _steps(episode: Episode, to_action: Any, observe: Any) -> Any:
    """Yield action, what the rubric sees, and the recorded scores, of each step."""
    actions = samples_of(episode.actions, len(episode))
    observations = samples_of(episode.observations, len(episode) + 1)[1:]
    rewards, infos = episode.rewards, episode.infos
    for at, (action, sample) in enumerate(zip(actions, observations, strict=True)):
        is_last = at == len(episode) - 1
        metadata = {key: value for key, value in infos[at].items() if key not in _OF_RUBRICS}
        known = {
            "reward": float(rewards[at]),
            "done": is_last and episode.complete,
            "truncated": is_last and episode.truncated and not episode.terminated,
            "metadata": metadata,
        }
        components = infos[at].get(_COMPONENTS) or {}
        recorded = {REWARD: float(rewards[at])}
        recorded.update({str(name): float(score) for name, score in components.items()})
        yield to_action(action), observe(sample, known), recorded


def _same(sample: Any) -> Any:
    return sample


def _mean(values: np.ndarray[Any, Any]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan
