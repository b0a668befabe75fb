"""A window on the client for ``render_mode="human"``."""

from __future__ import annotations

from typing import Any

import gymnasium.error
import numpy as np


__all__ = ["Viewer"]


class Viewer:
    """Shows RGB frames at the environment's speed.

    Args:
        title: Of the window.
        fps: Frames per second, at most; None for as fast as they come.

    Raises:
        DependencyNotInstalled: pygame is missing.
    """

    def __init__(self, title: str, fps: float | None) -> None:
        try:
            import pygame
        except ImportError as error:
            raise gymnasium.error.DependencyNotInstalled(
                'pygame is not installed; run `pip install "openenv-gym[human]"`'
            ) from error
        self._pygame: Any = pygame
        self._title = title
        self._fps = fps
        self._window: Any = None
        self._clock: Any = None

    def show(self, frame: np.ndarray[Any, Any]) -> None:
        """Show one frame of shape (height, width, 3), uint8."""
        pygame = self._pygame
        size = (frame.shape[1], frame.shape[0])
        if self._window is None or self._window.get_size() != size:
            pygame.display.init()  # not everything: sound, where there is none, complains
            self._window = pygame.display.set_mode(size)
            pygame.display.set_caption(self._title)
            self._clock = pygame.time.Clock()
        surface = pygame.surfarray.make_surface(frame.swapaxes(0, 1))
        self._window.blit(surface, (0, 0))
        pygame.event.pump()
        pygame.display.flip()
        if self._fps:
            self._clock.tick(self._fps)

    def close(self) -> None:
        """Close the window."""
        if self._window is not None:
            self._pygame.display.quit()
            self._window = None
