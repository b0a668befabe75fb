"""An environment that runs the code it is given, inside the server: the worst that can be served.

Nobody serves it but ``doctor --attack``, in containers of its own.
"""

from __future__ import annotations

import string
from typing import Any

import gymnasium

from openenv_gym.server import create_app


__all__ = ["ROOM", "Room", "app"]

ROOM = "openenv_gym.doctor.attack.room:app"
"""What a server is told to serve."""


class Room(gymnasium.Env[Any, str]):
    """Each action is Python code; what it leaves in ``result`` comes back in the info.

    An exception comes back as text, or is raised where ``loud`` is set. What is defined stays
    until the session ends.
    """

    action_space = gymnasium.spaces.Text(1 << 20, min_length=0, charset=string.printable)
    observation_space = gymnasium.spaces.Discrete(1)

    def __init__(self) -> None:
        self._globals: dict[str, Any] = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Begin; what was defined stays."""
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: str) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Run the code."""
        self._globals["result"] = None
        try:
            exec(action, self._globals)
        except Exception as error:
            if self._globals.get("loud"):
                raise
            self._globals["result"] = f"{type(error).__name__}: {error}"
        return 0, 0.0, False, False, {"result": self._globals["result"]}


app = create_app(Room)
