"""The environment itself."""

from __future__ import annotations

from typing import Any, ClassVar

from openenv_gym import Environment, State
from openenv_gym.errors import InvalidOptionError
from openenv_gym.rubrics import Rubric, load_rubric

from template_env.models import MAX_SIZE, TemplateAction, TemplateObservation


__all__ = ["TemplateEnvironment", "TemplateRubric"]


class TemplateRubric(Rubric):
    """1 at the goal, and a little less than nothing for every other step."""

    def forward(self, action: TemplateAction, observation: TemplateObservation) -> float:
        """Return the reward of a step."""
        return 1.0 if observation.terminated else -0.01


class TemplateEnvironment(Environment[TemplateAction, TemplateObservation, State]):
    """Walk along a line to a goal.

    Args:
        size: Number of places, from 2 to `MAX_SIZE`.
        max_steps: Steps after which an episode is truncated.
        rubric: What gives each step its reward; None for `TemplateRubric`.
        render_mode: ``"ansi"`` to have `render` draw the line, or None.

    Raises:
        InvalidOptionError: An option has a value that is not taken.
    """

    action_model = TemplateAction
    observation_model = TemplateObservation
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 4}

    def __init__(
        self,
        *,
        size: int = 9,
        max_steps: int = 50,
        rubric: Rubric | str | None = None,
        render_mode: str | None = None,
    ) -> None:
        _check("size", size, f"an integer from 2 to {MAX_SIZE}", 2, MAX_SIZE)
        _check("max_steps", max_steps, "an integer from 1", 1, None)
        if render_mode not in (None, "ansi"):
            raise InvalidOptionError(
                f"render_mode={render_mode!r}: expected 'ansi' or None.", field="render_mode"
            )
        self.render_mode = render_mode
        self.rubric = load_rubric(rubric, default=TemplateRubric())
        self._size = size
        self._max_steps = max_steps
        self._position = self._goal = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> TemplateObservation:
        """Put the walker and its goal on two places."""
        self.begin_episode(seed)
        places = self.np_random.choice(self._size, size=2, replace=False)
        self._position, self._goal = map(int, places)
        return TemplateObservation(position=self._position, goal=self._goal)

    def step(self, action: TemplateAction) -> TemplateObservation:
        """Walk one place on; at the end of the line the walker stays where it is."""
        position = self._position + (1 if action.move == "right" else -1)
        self._position = min(max(position, 0), self._size - 1)
        arrived = self._position == self._goal
        over = self.count_step() >= self._max_steps
        return TemplateObservation(
            position=self._position,
            goal=self._goal,
            done=arrived or over,
            truncated=over and not arrived,
        )

    def render(self) -> str | None:
        """Return the line as text, in render mode ``"ansi"``."""
        if self.render_mode != "ansi":
            return None
        line = ["."] * self._size
        line[self._goal] = "G"
        line[self._position] = "@"
        return "".join(line)

    def save_state(self) -> dict[str, Any]:
        """Return everything that the episode depends on."""
        return {
            "position": self._position,
            "goal": self._goal,
            "step_count": self._step_count,
            "episode_id": self.episode_id,
            "generator": self.np_random.bit_generator.state,
        }

    def restore_state(self, saved: dict[str, Any]) -> None:
        """Return to a state that `save_state` returned."""
        self._position, self._goal = saved["position"], saved["goal"]
        self._step_count, self.episode_id = saved["step_count"], saved["episode_id"]
        self.np_random.bit_generator.state = saved["generator"]


def _check(name: str, value: object, expected: str, least: int, most: int | None) -> None:
    if type(value) is not int or value < least or (most is not None and value > most):
        raise InvalidOptionError(f"{name}={value!r}: expected {expected}.", field=name)
