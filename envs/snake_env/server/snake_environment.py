"""The snake environment itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from openenv_gym import server
from openenv_gym.errors import ResetNeededError
from openenv_gym.models import State
from openenv_gym.rubrics import Rubric, load_rubric
from snake_env.models import SnakeAction, SnakeObservation, action_model, observation_model
from snake_env.server.saved import SavedSnake
from snake_env.server.snake import MAX_SIZE, TURNS, Event, Snake


__all__ = ["SnakeEnvironment"]

_REWARDS = {"fruit": 1.0, "kill": 0.0, "lose": -1.0, "win": 100.0, "time": 0.001}
_FROM_ABOVE = {1: 3, 2: 1, 3: 2, 4: 0}  # action -> index of TURNS; 0 goes straight on
_CHARACTERS = np.array(list(".o#tbH"))  # by `Mark`
_COLOURS = {
    ".": (240, 240, 240),
    "o": (200, 60, 60),
    "#": (60, 60, 60),
    "t": (130, 200, 150),
    "b": (90, 180, 120),
    "H": (30, 110, 60),
}


class SnakeEnvironment(server.Environment[SnakeAction, SnakeObservation, State]):
    """Eat fruits, each of which makes the snake longer, and run into nothing.

    Args:
        height: Rows of the world, walls included.
        width: Columns, likewise.
        snake_length: How long the snake is at first.
        vision_range: How many cells it sees in each direction; None for all of the world.
        observer: ``"snake"``: actions are straight on, left, right as the snake sees it;
            ``"human"``: straight on, left, right, down, up as seen from above.
        reward_dict: Other rewards for some of ``fruit``, ``lose``, ``win`` (no room is left),
            ``time`` (each step that it lives through) and ``kill``, which is never earned.
        max_steps: Truncate an episode after this many steps; None for never.
        render_mode: ``"ansi"``, ``"rgb_array"`` or None.
        rubric: Gives the reward in place of the above; see `openenv_gym.rubrics`.

    Raises:
        InvalidOptionError: An option has a value that is not taken.
    """

    action_model: type[SnakeAction] = SnakeAction
    observation_model: type[SnakeObservation] = observation_model((20, 20), (20, 20))
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 10}

    def __init__(
        self,
        *,
        height: int = 20,
        width: int = 20,
        snake_length: int = 3,
        vision_range: int | None = None,
        observer: str = "snake",
        reward_dict: Mapping[str, float] | None = None,
        max_steps: int | None = 1000,
        render_mode: str | None = None,
        rubric: Rubric | str | None = None,
    ) -> None:
        server.check_integer("height", height, 4, MAX_SIZE)
        server.check_integer("width", width, 4, MAX_SIZE)
        server.check_integer("snake_length", snake_length, 2, max(height, width) - 2)
        server.check_integer("vision_range", vision_range, 1, MAX_SIZE, optional=True)
        server.check_choice("observer", observer, ("snake", "human"))
        server.check_integer("max_steps", max_steps, 1, optional=True)
        server.check_choice("render_mode", render_mode, (None, "ansi", "rgb_array"))
        self._shape = (height, width)
        self._length = snake_length
        self._vision = vision_range
        self._from_above = observer == "human"
        self._rewards = server.merge_numbers("reward_dict", reward_dict, _REWARDS)
        self._max_steps = max_steps
        self._options = {"shape": self._shape, "rewards": self._rewards, "max_steps": max_steps}
        self.render_mode = render_mode
        self.rubric = load_rubric(rubric)
        self.action_model = action_model(5 if self._from_above else 3)
        side = None if vision_range is None else 2 * vision_range + 1
        self.observation_model = observation_model(
            self._shape, self._shape if side is None else (side, side)
        )
        self._begin(np.random.default_rng(0))  # until there is a reset

    def _begin(self, rng: np.random.Generator) -> None:
        self._snake = Snake.born(self._shape, self._length, rng)
        self._score = 0.0
        self._fruits = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> SnakeObservation:
        """Begin an episode. There are no options.

        Raises:
            InvalidOptionError: There is an option.
        """
        self.check_reset_options(options)
        self.begin_episode(seed)
        self._begin(self.np_random)
        return self._observe()

    def step(self, action: SnakeAction) -> SnakeObservation:
        """Take one step."""
        if self._is_over():
            raise ResetNeededError("The episode is over.", hint="Call reset() first.")
        event = self._snake.move(self._direction(action.action), self.np_random)
        rewards = self._rewards
        reward = rewards["lose"] if event == Event.DIED else rewards["time"]
        if event in (Event.ATE, Event.WON):
            self._fruits += 1
            reward += rewards["fruit"]
        if event == Event.WON:
            reward += rewards["win"]
        self._score += reward
        self.count_step()
        over = self._is_over()
        cut = over and event not in (Event.WON, Event.DIED)
        return self._observe(reward=reward, done=over, truncated=cut)

    def _direction(self, action: int) -> int:
        ahead = self._snake.direction
        if self._from_above:
            return _FROM_ABOVE.get(action, ahead)
        return (ahead + (0, -1, 1)[action]) % len(TURNS)

    def _observe(self, **outcome: Any) -> SnakeObservation:
        snake = self._snake
        return self.observation_model(
            grid=snake.grid(),
            observation=snake.planes(self._vision),
            episode_score=self._score,
            episode_steps=self._step_count,
            episode_fruits=self._fruits,
            alive=snake.alive,
            metadata={"action_mask": self._mask()},
            **outcome,
        )

    def _mask(self) -> NDArray[np.int8]:
        """Return which actions are legal: all, but for turning back. Shape (actions,)."""
        back = (self._snake.direction + 2) % len(TURNS)
        actions = range(5 if self._from_above else 3)
        return np.array([self._direction(action) != back for action in actions], np.int8)

    def legal_actions(self) -> list[SnakeAction]:
        """Return the moves that a snake can make; it cannot turn back."""
        return [self.action_model(action=int(action)) for action in np.flatnonzero(self._mask())]

    def _is_over(self) -> bool:
        snake = self._snake
        return not snake.alive or snake.fruit is None or self._step_count == self._max_steps

    def render(self) -> str | NDArray[np.uint8] | None:
        """Return lines of text, or a picture of 16 pixels for each cell, uint8."""
        return server.draw_cells(_CHARACTERS[self._snake.grid()], _COLOURS, self.render_mode)

    def save_state(self) -> dict[str, Any]:
        """Return snake, fruit, what was earned, and the generator."""
        snake = self._snake
        return SavedSnake.of(
            self,
            self._options,
            body=[list(cell) for cell in snake.body],
            direction=snake.direction,
            fruit=None if snake.fruit is None else list(snake.fruit),
            alive=snake.alive,
            score=self._score,
            fruits=self._fruits,
        )

    def restore_state(self, saved: Any) -> None:
        """Return to a state that `save_state` returned, of a world with the same options.

        Raises:
            InvalidOptionError: It is no such state.
        """
        state = SavedSnake.read(saved, self._options)
        self._snake = state.snake(self._shape)
        self._score, self._fruits = state.score, state.fruits
        state.apply(self)
