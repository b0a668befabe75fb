"""The environment, and the application that a server serves (named in `openenv.yaml`)."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from openenv_gym.server import create_app


__all__ = ["TrivialScreen", "app"]

SHAPE = (84, 84, 4)

Screen = npt.NDArray[np.uint8]


class TrivialScreen(gymnasium.Env[Screen, np.int64]):
    """Returns the same screen every time, each time in new memory; its episodes never end."""

    metadata = {"render_modes": []}

    def __init__(self) -> None:
        self.action_space = spaces.Discrete(2)
        self.observation_space = spaces.Box(0, 255, SHAPE, np.uint8)
        self._screen = np.zeros(SHAPE, np.uint8)
        self._screen[::2, ::3] = 200  # no content of its own, but not a single value either

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Screen, dict[str, Any]]:
        """Return the screen."""
        super().reset(seed=seed)
        return self._screen.copy(), {}

    def step(self, action: np.int64) -> tuple[Screen, float, bool, bool, dict[str, Any]]:
        """Return the screen."""
        return self._screen.copy(), 1.0, False, False, {}


app = create_app(TrivialScreen, name="trivial_env")
