"""What a snake environment saves."""

# No `from __future__ import annotations`: Pydantic needs the annotations themselves.

from typing import Annotated

from pydantic import Field

from openenv_gym.server import SavedState
from snake_env.server.snake import MAX_SIZE, TURNS, Cell, Snake


__all__ = ["SavedSnake"]

_Cell = Annotated[list[int], Field(min_length=2, max_length=2)]


class SavedSnake(SavedState):
    """A saved state.

    Attributes:
        body: Rows and columns of its cells, the head first.
        direction: Where it is heading, an index of `TURNS`.
        fruit: Row and column of the fruit.
        alive: It has run into nothing.
        score: Sum of the rewards so far.
        fruits: How many it has eaten.
    """

    body: list[_Cell] = Field(min_length=2, max_length=MAX_SIZE**2)
    direction: int = Field(ge=0, lt=len(TURNS))
    fruit: _Cell | None
    alive: bool
    score: float = Field(ge=-1e300, le=1e300)
    fruits: int = Field(ge=0, lt=MAX_SIZE**2)

    def snake(self, shape: Cell) -> Snake:
        """Return the snake.

        Args:
            shape: Height and width of its world.

        Raises:
            InvalidOptionError: No snake can be like that.
        """
        snake = Snake(shape, [(row, column) for row, column in self.body], self.direction)
        snake.alive = self.alive
        if self.fruit is not None:
            snake.fruit = (self.fruit[0], self.fruit[1])
        if not snake.is_possible():
            raise self.refusal("no snake can be like that")
        return snake
