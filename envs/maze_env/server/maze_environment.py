"""The maze environment itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from maze_env.models import (
    MAX_SIZE,
    MazeAction,
    MazeObservation,
    MazeState,
    observation_model,
)
from maze_env.server.maze import Maze, carve_maze, read_maze
from maze_env.server.walk import REWARDS, Walk
from openenv_gym import server
from openenv_gym.errors import InvalidOptionError, ResetNeededError
from openenv_gym.rubrics import Rubric, load_rubric


__all__ = ["MazeEnvironment"]

_COLOURS = {
    ".": (240, 240, 240),
    "#": (60, 60, 60),
    "S": (200, 200, 240),
    "E": (60, 170, 90),
    "A": (50, 90, 200),
}


class SavedMaze(server.SavedState):
    """What `MazeEnvironment.save_state` returns; the way has the cell and the one before first."""

    maze: list[str] = Field(max_length=MAX_SIZE)
    way: list[Annotated[list[int], Field(min_length=2, max_length=2)]] = Field(
        min_length=2, max_length=MAX_SIZE**2 + 2
    )
    score: float = Field(allow_inf_nan=False)


class MazeEnvironment(server.Environment[MazeAction, MazeObservation, MazeState]):
    """Find the exit: 10 for getting there, less than nothing for every other move.

    Args:
        size: Rows and columns of mazes that are carved at random, one for each episode; odd.
        maze: A maze that is always the same, as lines of ``#``, ``.``, ``S`` and ``E``.
        reward_dict: Other rewards for some of ``exit``, ``move``, ``visited`` and ``wall``.
        min_score: An episode is lost below this sum of rewards; by default minus a half for each
            cell of the maze.
        max_steps: Truncate an episode after this many steps; None for never.
        render_mode: ``"ansi"``, ``"rgb_array"`` or None.
        rubric: Gives the reward in place of the above; see `openenv_gym.rubrics`.

    Raises:
        InvalidOptionError: An option has a value that is not taken.
    """

    action_model = MazeAction
    observation_model: type[MazeObservation] = MazeObservation
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}

    def __init__(
        self,
        *,
        size: int = 9,
        maze: str | Sequence[str] | None = None,
        reward_dict: Mapping[str, float] | None = None,
        min_score: float | None = None,
        max_steps: int | None = None,
        render_mode: str | None = None,
        rubric: Rubric | str | None = None,
    ) -> None:
        server.check_integer("size", size, 3, MAX_SIZE - 1)
        if size % 2 == 0:
            raise InvalidOptionError(f"size={size}: expected an odd number.", field="size")
        server.check_number("min_score", min_score, optional=True)
        server.check_integer("max_steps", max_steps, 1, optional=True)
        server.check_choice("render_mode", render_mode, (None, "ansi", "rgb_array"))
        self._size = size
        self._fixed = None if maze is None else read_maze(maze)
        # Until there is a reset, some maze.
        begun = self._fixed or carve_maze(size, np.random.default_rng(0))
        shape = begun.marks.shape
        self._options: dict[str, Any] = {
            "maze": size if self._fixed is None else self._fixed.lines,
            "reward_dict": server.merge_numbers("reward_dict", reward_dict, REWARDS),
            "min_score": -0.5 * shape[0] * shape[1] if min_score is None else min_score,
            "max_steps": max_steps,
        }
        self._walk = self._walk_through(begun)
        self.render_mode = render_mode
        self.rubric = load_rubric(rubric)
        self.observation_model = observation_model(max(shape))

    def _walk_through(self, maze: Maze) -> Walk:
        return Walk(maze, self._options["reward_dict"], self._options["min_score"])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> MazeObservation:
        """Begin an episode, in a maze of its own or the one that was given. There are no options.

        The first ``info`` has the ``maze``, in which 1 is a wall; shape (rows, columns), int8.

        Raises:
            InvalidOptionError: There is an option.
        """
        self.check_reset_options(options)
        self.begin_episode(seed)
        maze = self._fixed or carve_maze(self._size, self.np_random)
        self._walk = self._walk_through(maze)
        observation = self._observe()
        observation.metadata["maze"] = (maze.marks == "#").astype(np.int8)
        return observation

    def step(self, action: MazeAction) -> MazeObservation:
        """Take one step."""
        if self._is_over():
            raise ResetNeededError("The episode is over.", hint="Call reset() first.")
        reward = self._walk.move(action.action)
        self.count_step()
        over = self._is_over()
        cut = over and self._walk.status == "playing"
        return self._observe(reward=reward, done=over, truncated=cut)

    def legal_actions(self) -> list[MazeAction]:
        """Return the moves that no wall is in the way of."""
        return [MazeAction(action=int(action)) for action in np.flatnonzero(self._mask())]

    @property
    def state(self) -> MazeState:
        """Where the agent is, and how the episode stands."""
        walk = self._walk
        return MazeState(
            episode_id=self._episode_id,
            step_count=self._step_count,
            done=self._is_over(),
            current_position=list(walk.cell),
            exit_cell=list(walk.maze.exit),
            status=walk.status,
        )

    def _observe(self, **outcome: Any) -> MazeObservation:
        walk, mask = self._walk, self._mask()
        exit_cell = list(walk.maze.exit)
        return self.observation_model(
            legal_actions=np.flatnonzero(mask).tolist(),
            current_position=list(walk.cell),
            previous_position=list(walk.previous),
            metadata={"action_mask": mask, "status": walk.status, "exit_cell": exit_cell},
            **outcome,
        )

    def _mask(self) -> NDArray[np.int8]:
        moves = self._walk.open_moves()
        return np.zeros_like(moves) if self._is_over() else moves

    def _is_over(self) -> bool:
        return self._walk.status != "playing" or self._step_count == self._options["max_steps"]

    def render(self) -> str | NDArray[np.uint8] | None:
        """Return lines of text, or a picture of 16 pixels for each cell, uint8."""
        cells = self._walk.maze.marks.copy()
        cells[self._walk.cell[::-1]] = "A"
        return server.draw_cells(cells, _COLOURS, self.render_mode)

    def save_state(self) -> dict[str, Any]:
        """Return the maze, the way so far, the score and the generator."""
        walk = self._walk
        way = [list(cell) for cell in (walk.cell, walk.previous, *sorted(walk.visited))]
        lines = walk.maze.lines
        return SavedMaze.of(self, self._options, maze=lines, way=way, score=walk.score)

    def restore_state(self, saved: Any) -> None:
        """Return to a state that `save_state` returned, of mazes with the same options.

        Raises:
            InvalidOptionError: It is no such state.
        """
        state = SavedMaze.read(saved, self._options)
        try:
            walk = self._walk_through(read_maze(state.maze))
        except InvalidOptionError as error:
            raise state.refusal(error.message) from None
        walk.cell, walk.previous, *visited = ((column, row) for column, row in state.way)
        walk.visited, walk.score = set(visited), state.score
        free = all(map(walk.maze.is_free, (walk.cell, walk.previous, *visited)))
        if not free or walk.maze.marks.shape != self._walk.maze.marks.shape:
            raise state.refusal("its way leads through walls")
        self._walk = walk
        state.apply(self)
