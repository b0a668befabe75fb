"""The environment itself, a `gymnasium.Env` like any other."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from openenv_gym.errors import InvalidOptionError


__all__ = ["TemplateEnvironment"]

Seen = NDArray[np.float32]

_EDGE = 1.0
_HEIGHT, _WIDTH = 32, 128


class TemplateEnvironment(gymnasium.Env[Seen, np.int64]):
    """Keep a cart in the middle of its track.

    Args:
        force: Change of velocity by one push, above 0 and at most 1.
        render_mode: ``"rgb_array"`` to have `render` draw the track, or None.

    Raises:
        InvalidOptionError: An option has a value that is not taken.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}

    def __init__(self, *, force: float = 0.1, render_mode: str | None = None) -> None:
        if type(force) not in (int, float) or not 0 < force <= 1:
            raise InvalidOptionError(
                f"force={force!r}: expected a number above 0 and at most 1.", field="force"
            )
        if render_mode not in (None, "rgb_array"):
            raise InvalidOptionError(
                f"render_mode={render_mode!r}: expected 'rgb_array' or None.", field="render_mode"
            )
        self.render_mode = render_mode
        self.action_space = spaces.Discrete(3)
        self.observation_space = spaces.Box(-2 * _EDGE, 2 * _EDGE, (2,), np.float32)
        self._force = force
        self._position = self._velocity = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """Put the cart somewhere, with some velocity."""
        super().reset(seed=seed)
        position, velocity = self.np_random.uniform(-0.2, 0.2, size=2)
        self._position, self._velocity = float(position), float(velocity)
        return self._see(), {}

    def step(self, action: np.int64) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Push the cart, and let it roll on."""
        push = self._force * (int(action) - 1)
        self._velocity = min(max(self._velocity + push, -_EDGE), _EDGE)
        self._position += self._velocity
        self._position = min(max(self._position, -2 * _EDGE), 2 * _EDGE)
        return self._see(), -abs(self._position), abs(self._position) > _EDGE, False, {}

    def render(self) -> NDArray[np.uint8] | None:
        """Return a picture of shape ``(32, 128, 3)``, in render mode ``"rgb_array"``."""
        if self.render_mode != "rgb_array":
            return None
        picture = np.full((_HEIGHT, _WIDTH, 3), 255, np.uint8)
        place = (self._position / _EDGE + 1) / 2 * (_WIDTH - 1)
        column = int(min(max(place, 4), _WIDTH - 5))
        picture[_HEIGHT // 2 :, column - 4 : column + 5] = (40, 90, 200)
        return picture

    def _see(self) -> Seen:
        return np.array([self._position, self._velocity], np.float32)
