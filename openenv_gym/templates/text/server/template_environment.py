"""The environment itself: a task in words, and what an answer is worth."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from openenv_gym import Environment, State
from openenv_gym.errors import InvalidOptionError
from openenv_gym.rubrics import Rubric, WeightedSum, load_rubric

from template_env.models import TemplateAction, TemplateObservation


__all__ = ["TemplateEnvironment", "TemplateRubric"]


class _IsRight(Rubric):
    def forward(self, action: TemplateAction, observation: TemplateObservation) -> float:
        return float(observation.terminated)


class _IsNumber(Rubric):
    def forward(self, action: TemplateAction, observation: TemplateObservation) -> float:
        return float(_number(action.message) is not None)


class TemplateRubric(WeightedSum):
    """What gives a step its reward: mostly the right answer, a little its form."""

    def __init__(self) -> None:
        super().__init__([_IsRight(), _IsNumber()], [0.9, 0.1])


class TemplateEnvironment(Environment[TemplateAction, TemplateObservation, State]):
    """Add two numbers.

    Args:
        tries: Answers after which an episode is truncated.
        rubric: What gives each step its reward; None for `TemplateRubric`.
        render_mode: ``"ansi"`` to have `render` return what was said, or None.

    Raises:
        InvalidOptionError: An option has a value that is not taken.
    """

    action_model = TemplateAction
    observation_model = TemplateObservation
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 4}

    def __init__(
        self,
        *,
        tries: int = 3,
        rubric: Rubric | str | None = None,
        render_mode: str | None = None,
    ) -> None:
        if type(tries) is not int or tries < 1:
            raise InvalidOptionError(f"tries={tries!r}: expected an integer from 1.", field="tries")
        if render_mode not in (None, "ansi"):
            raise InvalidOptionError(
                f"render_mode={render_mode!r}: expected 'ansi' or None.", field="render_mode"
            )
        self.render_mode = render_mode
        self.rubric = load_rubric(rubric, default=TemplateRubric())
        self._tries = tries
        self._sum = 0
        self._said: list[str] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> TemplateObservation:
        """Set a task."""
        self.begin_episode(seed)
        one, other = map(int, self.np_random.integers(10, 100, size=2))
        self._sum = one + other
        self._said = [f"What is {one} + {other}? Answer with a number alone."]
        return TemplateObservation(text=self._said[-1])

    def step(self, action: TemplateAction) -> TemplateObservation:
        """Read an answer, and say something about it."""
        right = _number(action.message) == self._sum
        over = self.count_step() >= self._tries
        text = "Right." if right else "Wrong." if over else "Wrong, try again."
        self._said += [f"> {action.message}", text]
        return TemplateObservation(text=text, done=right or over, truncated=over and not right)

    def render(self) -> str | None:
        """Return what was said, in render mode ``"ansi"``."""
        return "\n".join(self._said) if self.render_mode == "ansi" else None


def _number(text: str) -> int | None:
    """Return the number that a text is, of at most nine digits; None for anything else."""
    return int(text) if re.fullmatch(r"\s*\d{1,9}\s*", text, re.ASCII) else None
