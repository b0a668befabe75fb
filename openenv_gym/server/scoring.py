"""Rewards by an environment's rubric: the one place where a server calls it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import math
from collections.abc import Awaitable
from typing import Any

import numpy as np

from openenv_gym import errors
from openenv_gym.models.mcp import ListToolsObservation
from openenv_gym.models.types import Observation
from openenv_gym.rubrics.base import Rubric, is_rubric, to_score
from openenv_gym.rubrics.loop import background
from openenv_gym.server.mcp.text import ToolCallText, ToolResultText


__all__ = ["begin_scoring", "score_step", "waits_for_scores"]

_MAX_TEXT = 4_000
_CANCEL_S = 1.0  # what was cancelled has this long to come to an end


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
    * ``reward_fallbacks``, where a part had no score and took one that was declared for that: the
      reasons by the dotted names; "reward" is the rubric itself.
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
    action, judged = _judged(action, observation)
    try:
        parts = [("reward", rubric), *rubric.named_rubrics()]
        for _, part in parts:
            part.last_score = part.fallback_reason = None
        score = rubric(action, judged)
        if inspect.isawaitable(score):
            score = _wait(score, _limit_s(rubric))
        score = to_score(score, type(rubric).__name__)
        components = {name: _component(part) for name, part in parts[1:]}
        credit = _credit(rubric) if observation.done else None
    except Exception as error:
        raise _failure(rubric, error) from error
    observation.reward = score
    metadata = {**observation.metadata, "reward_components": components}
    reasons = {name: part.fallback_reason for name, part in parts}
    if fallbacks := {name: reason for name, reason in reasons.items() if reason is not None}:
        metadata["reward_fallbacks"] = fallbacks
    if credit is not None:
        metadata["step_rewards"] = credit
    observation.metadata = metadata


def waits_for_scores(environment: Any) -> bool:
    """Tell whether steps of an environment wait for a rubric that is asynchronous.

    Those of several are to be in their steps at once then, as a model takes seconds to answer.
    """
    rubric: Any = getattr(environment, "rubric", None)
    if not is_rubric(rubric):
        return False
    return any(
        inspect.iscoroutinefunction(getattr(each, name, None))
        for each in (rubric, *rubric.rubrics())
        for name in ("forward", "score_trajectory")
    )


def _judged(action: Any, observation: Observation) -> tuple[Any, Observation]:
    """Return what a rubric sees of a step: the call of a tool, where there is the text of it."""
    if isinstance(action, ToolCallText) and isinstance(observation, ToolResultText):
        called = observation.called
        if called is not None:
            return action.to_call(), called
    return action, observation


def _limit_s(rubric: Any) -> float | None:
    """Return how long a rubric may take: as long as the most patient of its parts."""
    limits = [getattr(each, "timeout_s", Rubric.timeout_s) for each in (rubric, *rubric.rubrics())]
    known = [float(limit) for limit in limits if limit is not None]
    return max(known) if len(known) == len(limits) else None


def _wait(score: Awaitable[Any], limit_s: float | None) -> Any:
    """Return a score once it is there.

    Raises:
        DeadlineExceededError: It took too long.
        Exception: What came instead.
    """
    future = background.start(_within(score, limit_s))
    try:
        # The loop keeps the limit, unless a rubric that does not let go of it holds it up.
        patience_s = None if limit_s is None else limit_s + 2 * _CANCEL_S
        if concurrent.futures.wait((future,), patience_s).done:
            return future.result()
        raise errors.DeadlineExceededError(
            f"It took longer than {limit_s:g} s, and a rubric holds up the loop of all of them.",
            hint="What is asynchronous must not block.",
        )
    except BaseException:
        future.cancel()
        raise


async def _within(score: Awaitable[Any], limit_s: float | None) -> Any:
    task = asyncio.ensure_future(score)
    done, _ = await asyncio.wait({task}, timeout=limit_s)
    if done:
        return task.result()
    task.cancel()
    await asyncio.wait({task}, timeout=_CANCEL_S)
    raise errors.DeadlineExceededError(f"It took longer than {limit_s:g} s.")


def _component(part: Any) -> float:
    return math.nan if part.last_score is None else float(part.last_score)


def _credit(rubric: Any) -> Any:
    compute = getattr(rubric, "compute_step_rewards", None)
    if compute is None:
        return None
    credit = np.array(compute(), np.float64)
    if credit.ndim != 1 or not np.isfinite(credit).all():
        raise ValueError("compute_step_rewards returned something else than finite numbers")
    return credit


def _failure(rubric: Any, error: Exception) -> errors.RubricError:
    """Return the error of a rubric as one that names it."""
    blamed = getattr(error, "openenv_rubric", rubric)
    names = {id(part): name for name, part in rubric.named_rubrics()}
    name = names.get(id(blamed), "rubric")
    kind, text, hint = type(error).__name__, f"{type(error).__name__}: {error}", None
    if isinstance(error, errors.OpenEnvGymError):
        text, hint = error.message, error.hint
        kind = str(error.data.get("type", kind))
    text = text[:_MAX_TEXT].encode(errors="backslashreplace").decode()
    return errors.RubricError(
        f"The rubric {name!r} ({type(blamed).__name__}) has no score: {text}",
        field=name,
        hint=hint,
        data={"type": kind},
    )
