"""Rewards by an environment's rubric: the one place where a server calls it."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable
from typing import Any

import numpy as np

from openenv_gym import errors
from openenv_gym.background import Background
from openenv_gym.models.mcp import ListToolsObservation
from openenv_gym.models.types import Observation
from openenv_gym.rubrics.base import Rubric, to_score


__all__ = ["begin_scoring", "score_step"]

_MAX_TEXT = 4_000

# One loop for all rubrics of the process: connections to a model's endpoint belong to a loop. Not
# the one of clients, which would stand still where a rubric keeps its loop busy.
_background = Background("openenv-gym-rubrics")


def begin_scoring(rubric: Any) -> None:
    """Have a rubric forget the last episode.

    Raises:
        RubricError: It raised an exception.
    """
    try:
        # OpenEnv's rubrics do not reset their parts.
        for each in (*rubric.rubrics(), rubric):
            each.reset()
    except Exception as error:
        raise _failure(rubric, error) from error


def score_step(rubric: Any, action: Any, observation: Observation) -> None:
    """Give a step its reward.

    The observation gets the score as its `reward`, and in its `metadata`:

    * ``reward_components``: the scores of all parts by their dotted names, NaN for those that did
      not run. The names are the same in each step.
    * ``step_rewards``, with the last step of an episode, where the rubric has
      `compute_step_rewards`: the credit of each step (float64, shape ``(steps,)``).

    Args:
        rubric: The rubric: a `Rubric`, or what has its methods.
        action: What was done. The text of a tool call is judged as the call.
        observation: What came of it; a list of tools is no step, and has no reward.

    Raises:
        RubricError: A rubric raised an exception, took too long, or has no finite number.
    """
    if isinstance(observation, ListToolsObservation):
        return
    judged = getattr(observation, "called", None)
    if judged is not None:
        action = action.to_call()
    parts = list(rubric.named_rubrics())
    for _, part in parts:
        part.last_score = None
    try:
        score = rubric(action, observation if judged is None else judged)
        if inspect.isawaitable(score):
            score = _background.run(_wait(score, getattr(rubric, "timeout_s", Rubric.timeout_s)))
        score = to_score(score, type(rubric).__name__)
        components = {name: _component(part) for name, part in parts}
        credit = _credit(rubric) if observation.done else None
    except Exception as error:
        raise _failure(rubric, error) from error
    observation.reward = score
    metadata = {**observation.metadata, "reward_components": components}
    if credit is not None:
        metadata["step_rewards"] = credit
    observation.metadata = metadata


async def _wait(score: Awaitable[Any], limit_s: float | None) -> Any:
    task = asyncio.ensure_future(score)
    done, _ = await asyncio.wait({task}, timeout=limit_s)
    if not done:
        task.cancel()
        await asyncio.wait({task})
        if task.cancelled():
            raise errors.DeadlineExceededError(f"It took longer than {limit_s:g} s.")
    return task.result()


def _component(part: Any) -> float:
    return math.nan if part.last_score is None else float(part.last_score)


def _credit(rubric: Any) -> Any:
    compute = getattr(rubric, "compute_step_rewards", None)
    if compute is None:
        return None
    credit = np.array(compute(), np.float64)
    if not np.isfinite(credit).all():
        raise ValueError("the rewards of the steps are not all finite numbers")
    return credit


def _failure(rubric: Any, error: Exception) -> errors.RubricError:
    """Return the error of a rubric as one that names it."""
    blamed = getattr(error, "openenv_rubric", rubric)
    names = {id(part): name for name, part in rubric.named_rubrics()}
    name = names.get(id(blamed), "rubric")
    kind = type(error).__name__
    if isinstance(error, errors.RubricError):
        kind, text = str(error.data.get("type", kind)), error.message
    else:
        text = f"{kind}: {error}"
    text = text[:_MAX_TEXT].encode(errors="backslashreplace").decode()
    return errors.RubricError(
        f"The rubric {name!r} ({type(blamed).__name__}) has no score: {text}",
        field=name,
        data={"type": kind},
    )
