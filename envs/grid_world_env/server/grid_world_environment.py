"""The grid world itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from grid_world_env.models import (
    MAX_SIZE,
    GridWorldAction,
    GridWorldObservation,
    MoveAction,
    observation_model,
)
from openenv_gym.errors import InvalidOptionError, ResetNeededError
from openenv_gym.models import State
from openenv_gym.rubrics import Rubric, load_rubric
from openenv_gym.server import Environment, SavedState, check_choice, check_integer, draw_cells


__all__ = ["GridWorldEnvironment"]

Cell = tuple[int, int]

_STEPS: dict[MoveAction, Cell] = {
    MoveAction.UP: (-1, 0),
    MoveAction.DOWN: (1, 0),
    MoveAction.LEFT: (0, -1),
    MoveAction.RIGHT: (0, 1),
}
_COLOURS = {".": (240, 240, 240), "#": (60, 60, 60), "G": (60, 170, 90), "A": (50, 90, 200)}


class SavedGridWorld(SavedState):
    """What `GridWorldEnvironment.save_state` returns."""

    x: int = Field(ge=0, lt=MAX_SIZE)
    y: int = Field(ge=0, lt=MAX_SIZE)


class GridWorldEnvironment(Environment[GridWorldAction, GridWorldObservation, State]):
    """Walk to the goal: -0.1 for each step, and 1.0 for the one that gets there.

    A move against a wall or over the edge costs the same and leads nowhere.

    Args:
        size: Number of rows and of columns, from 2.
        start: Row and column where an episode begins, or ``"random"``: a free cell that is drawn
            for each episode.
        goal: Row and column of the goal; by default the lower right corner.
        walls: Rows and columns that cannot be entered.
        max_steps: Truncate an episode after this many steps; None for never.
        render_mode: ``"ansi"``, ``"rgb_array"`` or None.
        rubric: Gives the reward in place of the one above; see `openenv_gym.rubrics`.

    Raises:
        InvalidOptionError: An option has a value that is not taken.
    """

    action_model = GridWorldAction
    observation_model: type[GridWorldObservation] = GridWorldObservation
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}

    def __init__(
        self,
        *,
        size: int = 5,
        start: Sequence[int] | str = (0, 0),
        goal: Sequence[int] | None = None,
        walls: Sequence[Sequence[int]] = (),
        max_steps: int | None = 100,
        render_mode: str | None = None,
        rubric: Rubric | str | None = None,
    ) -> None:
        check_integer("size", size, 2, MAX_SIZE)
        check_integer("max_steps", max_steps, 1, optional=True)
        check_choice("render_mode", render_mode, (None, "ansi", "rgb_array"))
        self._size = size
        self._goal = self._read_cell("goal", (size - 1, size - 1) if goal is None else goal)
        self._walls = self._read_walls(walls)
        drawn = isinstance(start, str) and start == "random"
        self._start = None if drawn else self._read_cell("start", start)
        self._free = [
            cell for cell in np.ndindex(size, size) if cell not in self._walls | {self._goal}
        ]
        if self._goal in self._walls or not self._free:
            raise InvalidOptionError("walls: they leave no room.", field="walls")
        if self._start is not None and self._start not in self._free:
            raise InvalidOptionError(
                f"start={self._start}: a wall or the goal is there.", field="start"
            )
        self._max_steps = max_steps
        self.render_mode = render_mode
        self.rubric = load_rubric(rubric)
        self.observation_model = observation_model(size)
        self._options = {
            "size": size,
            "goal": self._goal,
            "walls": sorted(self._walls),
            "max_steps": max_steps,
        }
        self._cell: Cell = self._goal  # nothing can be done before a reset

    def _read_cell(self, field: str, value: Any) -> Cell:
        if (
            isinstance(value, (list, tuple))  # JSON has no tuples
            and len(value) == 2
            and all(type(number) is int and 0 <= number < self._size for number in value)
        ):
            return value[0], value[1]
        raise InvalidOptionError(
            f"{field}: expected row and column from 0 to {self._size - 1}, got {value!r:.80}.",
            field=field,
        )

    def _read_walls(self, value: Any) -> frozenset[Cell]:
        if not isinstance(value, (list, tuple)):
            raise InvalidOptionError(
                f"walls={value!r:.80}: expected a list of cells.", field="walls"
            )
        return frozenset(self._read_cell("walls", cell) for cell in value)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> GridWorldObservation:
        """Begin an episode. There are no options.

        Raises:
            InvalidOptionError: There is an option.
        """
        self.check_reset_options(options)
        self.begin_episode(seed)
        if self._start is None:
            self._cell = self._free[self.np_random.integers(len(self._free))]
        else:
            self._cell = self._start
        return self._observe("Walk to row {}, column {}.".format(*self._goal))

    def step(self, action: GridWorldAction) -> GridWorldObservation:
        """Take one step."""
        if self._is_over():
            raise ResetNeededError("The episode is over.", hint="Call reset() first.")
        target = self._beside(action.action)
        blocked = not self._is_open(target)
        if not blocked:
            self._cell = target
        self.count_step()
        reached = self._cell == self._goal
        message = "You are there." if reached else "Something is in the way." if blocked else ""
        over = self._is_over()
        reward = 1.0 if reached else -0.1
        return self._observe(message, reward=reward, done=over, truncated=over and not reached)

    def legal_actions(self) -> list[GridWorldAction]:
        """Return the moves that lead to another cell."""
        return [
            GridWorldAction(action=move) for move in _STEPS if self._is_open(self._beside(move))
        ]

    def _observe(self, message: str, **outcome: Any) -> GridWorldObservation:
        mask = np.array([self._is_open(self._beside(move)) for move in _STEPS], np.int8)
        x, y = self._cell
        return self.observation_model(
            x=x, y=y, message=message, metadata={"action_mask": mask}, **outcome
        )

    def _beside(self, move: MoveAction) -> Cell:
        return self._cell[0] + _STEPS[move][0], self._cell[1] + _STEPS[move][1]

    def _is_open(self, cell: Cell) -> bool:
        return max(cell) < self._size and min(cell) >= 0 and cell not in self._walls

    def _is_over(self) -> bool:
        return self._cell == self._goal or self._step_count == self._max_steps

    def render(self) -> str | NDArray[np.uint8] | None:
        """Return lines of text, or a picture of shape (16 * size, 16 * size, 3), uint8."""
        cells = np.full((self._size, self._size), ".")
        for wall in self._walls:
            cells[wall] = "#"
        cells[self._goal] = "G"
        cells[self._cell] = "A"
        return draw_cells(cells, _COLOURS, self.render_mode)

    def save_state(self) -> dict[str, Any]:
        """Return place, number of steps and generator."""
        return SavedGridWorld.of(self, self._options, x=self._cell[0], y=self._cell[1])

    def restore_state(self, saved: Any) -> None:
        """Return to a state that `save_state` returned, of the same grid.

        Raises:
            InvalidOptionError: It is no such state.
        """
        state = SavedGridWorld.read(saved, self._options)
        if not self._is_open((state.x, state.y)):
            raise state.refusal("nobody can stand there")
        self._cell = (state.x, state.y)
        state.apply(self)
