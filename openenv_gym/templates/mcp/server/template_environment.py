"""The environment itself: tools, and what calling them is worth."""

from __future__ import annotations

from typing import Any, Literal

from openenv_gym import (
    CallToolAction,
    CallToolObservation,
    MCPEnvironment,
    ToolResultText,
    tool,
)
from openenv_gym.errors import InvalidOptionError


__all__ = ["TemplateEnvironment"]


class TemplateEnvironment(MCPEnvironment[Any, Any, Any]):
    """Find the door of a corridor.

    Args:
        door: How many steps it is away, at most.
        max_calls: Calls after which an episode is truncated.

    Raises:
        InvalidOptionError: An option has a value that is not taken.
    """

    def __init__(self, *, door: int = 7, max_calls: int = 20) -> None:
        for name, value in {"door": door, "max_calls": max_calls}.items():
            if type(value) is not int or value < 1:
                raise InvalidOptionError(
                    f"{name}={value!r}: expected an integer from 1.", field=name
                )
        self._farthest = door
        self._max_calls = max_calls
        self._at = self._door = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> ToolResultText:
        """Put the door somewhere."""
        self.begin_episode(seed)
        self._at, self._door = 0, int(self.np_random.integers(1, self._farthest + 1))
        return ToolResultText(text="You stand in a corridor. Somewhere there is a door.")

    @tool
    def look(self) -> str:
        """Look around."""
        if self._at == self._door:
            return "You stand at the door."
        return f"The door is further {'on' if self._at < self._door else 'back'}."

    @tool
    def walk(self, steps: int, direction: Literal["on", "back"] = "on") -> int:
        """Walk along the corridor.

        Args:
            steps: How many steps.
            direction: Where to.
        """
        self._at += steps if direction == "on" else -steps
        return self._at

    def judge(self, action: CallToolAction, observation: CallToolObservation) -> None:
        """Give a call its reward, and the episode its end."""
        arrived = self._at == self._door
        over = self._step_count >= self._max_calls
        observation.reward = float(arrived)
        observation.done = arrived or over
        observation.truncated = over and not arrived
