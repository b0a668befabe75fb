"""An environment that does nothing: what is left of a step's time is the way there and back."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces


__all__ = ["TrivialEnv"]

Vector = npt.NDArray[np.float32]


class TrivialEnv(gymnasium.Env[Vector, np.int64]):
    """Returns the same values every time; its episodes never end."""

    metadata = {"render_modes": []}

    def __init__(self) -> None:
        self.action_space = spaces.Discrete(2)
        self.observation_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
        self._values = np.array([0.1, 0.2, 0.3, 0.4], np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Vector, dict[str, Any]]:
        """Return the observation."""
        super().reset(seed=seed)
        return self._values.copy(), {}

    def step(self, action: np.int64) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        """Return the observation."""
        return self._values.copy(), 1.0, False, False, {}


gymnasium.register("benchmarks/Trivial-v0", entry_point="benchmarks.trivial:TrivialEnv")
