"""`LLMJudge`: a score by a language model."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import inspect
import logging
import math
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from openenv_gym.errors import ConfigurationError, RubricError
from openenv_gym.rubrics.base import Rubric
from openenv_gym.rubrics.checks import finite
from openenv_gym.rubrics.judge.answers import read_answer, read_by_pattern
from openenv_gym.rubrics.judge.chat import ChatModel, Replies
from openenv_gym.rubrics.judge.prompts import fill, has_field, instructions, key_for, to_text


__all__ = ["LLMJudge"]

_log = logging.getLogger(__name__)

_GRACE_S = 5.0  # the judge gives up before whoever waits for it does


class LLMJudge(Rubric):
    r"""Has a language model score a step.

    ::

        judge = LLMJudge(
            "Is this answer polite?\n{observation}",
            model="qwen3",
            base_url="http://localhost:8001/v1",
        )

    The model is told to end its reply with ``Score: NUMBER``, and only such a line, ``{"score":
    NUMBER}``, or a reply that is a number is read. Where what is judged holds the word "score"
    itself, the answer must have a key that its author cannot know, so that a reply which quotes it
    is not taken for the judge's own.

    Without an answer, or with one out of range, the step has no score (`RubricError`), unless
    `default_score` is given; then ``info["reward_fallbacks"]`` says when it was used, and why.

    Args:
        prompt_template: What the model is asked; ``{action}`` and ``{observation}`` stand for
            those of the step, as JSON. Other braces are just braces.
        client: What has ``complete(prompt)``, an OpenEnv `LLMClient` for example, or a
            `ChatModel`; in its place, `model` and the arguments of `ChatModel` after it.
        model: See `ChatModel`, as are `base_url`, `api_key_env`, `concurrency`, `max_retries` and
            `parameters`.
        base_url: See `ChatModel`.
        api_key_env: See `ChatModel`.
        concurrency: See `ChatModel`.
        max_retries: See `ChatModel`.
        parameters: See `ChatModel`.
        score_range: Least and best score; None for any.
        score_pattern: A regular expression to find the score by, instead of the forms above; no
            key is asked for then.
        default_score: The score where there is none.
        timeout_s: How long one step may take, in seconds, waiting for a turn and retries included.
        cache: Whether a reply is kept, and taken again where the same is asked; 1,024 are.
        max_chars: How long action and observation may be in the prompt; longer ones lose their
            middle.

    Raises:
        ConfigurationError: An argument makes no sense, or `openai` is needed and not installed.
    """

    state_fields: ClassVar[tuple[str, ...]] = (
        "prompt_template",
        "score_range",
        "score_pattern",
        "default_score",
    )

    def __init__(
        self,
        prompt_template: str,
        client: Any = None,
        *,
        model: str | None = None,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        concurrency: int = 8,
        max_retries: int = 4,
        parameters: Mapping[str, Any] | None = None,
        score_range: tuple[float, float] | None = (0.0, 1.0),
        score_pattern: str | None = None,
        default_score: float | None = None,
        timeout_s: float = 45.0,
        cache: bool = True,
        max_chars: int = 20_000,
    ) -> None:
        if (client is None) == (model is None):
            raise ConfigurationError("Expected either a client or a model.", field="model")
        if client is not None and base_url is not None:
            raise ConfigurationError("A client has an address of its own.", field="base_url")
        if client is None:
            assert model is not None
            client = ChatModel(
                model,
                base_url=base_url,
                api_key_env=api_key_env,
                concurrency=concurrency,
                max_retries=max_retries,
                parameters=parameters,
            )
        if not callable(getattr(client, "complete", None)):
            raise ConfigurationError(f"{client!r:.80} has no method `complete`.", field="client")
        self._client = client
        self._replies = _replies_of(client) if cache else None
        self._limit_s = finite("timeout_s", timeout_s, 0.001)
        self._max_chars = int(finite("max_chars", max_chars, 1))
        self.timeout_s = self._limit_s + _GRACE_S
        self.prompt_template = prompt_template
        self.score_range = score_range
        self.score_pattern = score_pattern
        self.default_score = default_score

    def __deepcopy__(self, memo: dict[int, Any]) -> LLMJudge:
        memo[id(self._client)] = self._client  # it may hold what cannot be copied
        made: LLMJudge = type(self).__new__(type(self))
        memo[id(self)] = made
        vars(made).update(copy.deepcopy(vars(self), memo))
        return made

    # -- settings -----------------------------------------------------------------------------

    @property
    def prompt_template(self) -> str:
        """What the model is asked."""
        return self._template

    @prompt_template.setter
    def prompt_template(self, value: Any) -> None:
        if not isinstance(value, str) or not has_field(value):
            raise ConfigurationError(
                f"prompt_template={value!r:.80}: expected text with {{action}} or "
                "{observation} in it.",
                field="prompt_template",
            )
        self._template = value

    @property
    def score_range(self) -> tuple[float, float] | None:
        """Least and best score."""
        return self._range

    @score_range.setter
    def score_range(self, value: tuple[float, float] | None) -> None:
        if value is None:
            self._range = None
            return
        try:
            low, high = map(float, value)
            ok = low < high and math.isfinite(low) and math.isfinite(high)
        except (TypeError, ValueError):
            ok = False
        if not ok:
            raise ConfigurationError(
                f"score_range={value!r:.80}: expected two numbers, the lower one first.",
                field="score_range",
            )
        self._range = (low, high)

    @property
    def score_pattern(self) -> str | None:
        """Regular expression to find the score by."""
        return None if self._pattern is None else self._pattern.pattern

    @score_pattern.setter
    def score_pattern(self, value: str | None) -> None:
        try:
            self._pattern = None if value is None else re.compile(value)
        except (re.error, TypeError) as error:
            raise ConfigurationError(
                f"score_pattern={value!r:.80}: {error}.", field="score_pattern"
            ) from None

    @property
    def default_score(self) -> float | None:
        """The score where there is none."""
        return self._default

    @default_score.setter
    def default_score(self, value: float | None) -> None:
        self._default = None if value is None else finite("default_score", value)

    # -- judging ------------------------------------------------------------------------------

    def render_prompt(self, action: Any, observation: Any) -> str:
        """Return what the model is asked about a step; subclasses may put it otherwise."""
        return fill(
            self._template,
            to_text(action, self._max_chars),
            to_text(observation, self._max_chars),
        )

    async def forward(self, action: Any, observation: Any) -> float:
        """Return the model's score.

        Raises:
            RubricError: There is none, and no `default_score` either.
        """
        self.fallback_reason = None
        prompt = self.render_prompt(action, observation)
        key = ""
        if self._pattern is None:  # else it looks for the score where its author likes
            key = key_for(self._material(action, observation, prompt))
        try:
            return await asyncio.wait_for(self._judge(prompt, key), self._limit_s)
        except asyncio.TimeoutError:
            failure = RubricError(
                f"No score within {self._limit_s:g} s.", data={"type": "TimeoutError"}
            )
        except RubricError as error:
            failure = error
        if self._default is None:
            raise failure
        self.fallback_reason = failure.message
        _log.info("A judge has no score: %s", failure.message)
        return self._default

    def _material(self, action: Any, observation: Any, prompt: str) -> str:
        """Return what others wrote of a prompt; all of it where a subclass made it."""
        if type(self).render_prompt is not LLMJudge.render_prompt:
            return prompt
        return "\n".join(to_text(value, self._max_chars) for value in (action, observation))

    async def _judge(self, prompt: str, key: str) -> float:
        system = instructions(key, self._range)
        asked = hashlib.sha256(f"{system}\0{prompt}".encode("utf-8", "replace")).digest()
        reply = None if self._replies is None else self._replies.get(asked)
        if reply is None:
            reply = await self._ask(prompt, system)
        score = self._read(reply, key)
        if self._replies is not None:
            self._replies.put(asked, reply)
        return score

    async def _ask(self, prompt: str, system: str) -> str:
        if isinstance(self._client, ChatModel):
            return await self._client.complete(prompt, system=system)
        try:
            reply = self._client.complete(f"{prompt}\n\n{system}")
            if inspect.isawaitable(reply):
                reply = await reply
        except RubricError:
            raise
        except Exception as error:
            raise RubricError(
                f"The model did not answer: {type(error).__name__}: {error!s:.500}"
            ) from error
        if not isinstance(reply, str):
            raise RubricError(f"The model answered {reply!r:.200}, expected text.")
        return reply

    def _read(self, reply: str, key: str) -> float:
        low, high = self._range or (-math.inf, math.inf)
        try:
            if self._pattern is not None:
                score = read_by_pattern(reply, self._pattern)
            else:
                score = read_answer(reply, key, None if self._range is None else high)
        except ValueError as error:
            raise RubricError(f"The model's answer cannot be read: {error}.") from None
        if not math.isfinite(score) or not low <= score <= high:
            raise RubricError(f"The model's score is {score:g}, expected {low:g} to {high:g}.")
        return score


def _replies_of(client: Any) -> Replies:
    return client.replies if isinstance(client, ChatModel) else Replies(1024)
