"""One game as ale-py's ``ALE/<Game>-v5`` plays it."""

from __future__ import annotations

from typing import Any

import ale_py
import numpy as np
from numpy.typing import NDArray

from atari_env.options import AtariOptions
from atari_env.server.emulator import Emulator
from atari_env.server.saving import SavedGame
from openenv_gym.errors import InvalidOptionError


__all__ = ["PlainGame"]

_UNFAITHFUL = frozenset({"miniature_golf", "pitfall2", "qbert", "tetris"})
"""Games whose state ale-py 0.12.1 does not save in full; that of qbert and tetris, restored into
another process, even corrupts its memory. Corrected after 0.12.1 (ale-py #732)."""


class PlainGame:
    """One game in ale-py's own ``AtariEnv``.

    Args:
        game: The game's name in snake case.
        options: How to play it.
        render_mode: ``"rgb_array"``, ``"human"`` or None.

    Attributes:
        target: ale-py's environment, which also has the random generator.
        observables: What can be observed on `target`.

    Raises:
        InvalidOptionError: The game does not have the mode or difficulty.
    """

    observables: tuple[str, ...] = (
        "ale.lives",
        "ale.getScreenGrayscale",
        "ale.getScreenRGB",
        "ale.getScreen",
        "ale.getRAM",
        "ale.getFrameNumber",
        "ale.getEpisodeFrameNumber",
        "ale.game_over",
        "ale.game_truncated",
    )

    def __init__(self, game: str, options: AtariOptions, render_mode: str | None) -> None:
        self._game = game
        self._options = options
        try:
            env = ale_py.AtariEnv(game, render_mode=render_mode, **options.model_dump())
        except RuntimeError as error:
            raise _explain(game, options, error) from error
        env.ale = self._emulator = Emulator(env.ale)
        self.target: Any = env
        self.action_space: Any = env.action_space
        self.observation_space: Any = env.observation_space

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
        """Begin a new game; return observation and info."""
        result: tuple[Any, dict[str, Any]] = self.target.reset(seed=seed, options=options)
        return result

    def step(
        self, action: int | NDArray[np.float32]
    ) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one step; return observation, reward, terminated, truncated and info."""
        result: tuple[Any, float, bool, bool, dict[str, Any]] = self.target.step(action)
        return result

    def render(self) -> Any:
        """Return the screen, (height, width, 3) uint8, in render mode ``"rgb_array"``."""
        return self.target.render()

    def close(self) -> None:
        """Close ale-py's environment."""
        self.target.close()

    def describe(self) -> dict[str, Any]:
        """Return the fields of `AtariState` that the game knows."""
        options = self._options.model_dump(
            include={
                "obs_type",
                "full_action_space",
                "mode",
                "difficulty",
                "repeat_action_probability",
                "frameskip",
            }
        )
        return {**options, "lives": self._emulator.lives()}

    def save(self) -> dict[str, Any]:
        """Return the emulator's state as plain data, the fields of `SavedGame`.

        Raises:
            NotImplementedError: ale-py cannot save it in full.
        """
        self.check_saving()
        return self._emulator.save()

    def restore(self, saved: SavedGame) -> None:
        """Return to a state that `save` returned; the generator is the caller's.

        Raises:
            ValueError: The data is no such state.
        """
        self._emulator.restore(saved.emulator, (saved.action, saved.strength), saved.screen)

    def check_saving(self) -> None:
        """Refuse where ale-py cannot save in full.

        Raises:
            NotImplementedError: It cannot.
        """
        if self._options.sound_obs:
            raise NotImplementedError("With sound_obs=True, ale-py cannot save a state in full.")
        version = tuple(int(part) for part in ale_py.__version__.split(".")[:3] if part.isdigit())
        if self._game in _UNFAITHFUL and version <= (0, 12, 1):
            raise NotImplementedError(
                f"ale-py {ale_py.__version__} cannot save the state of {self._game} in full; "
                "later versions can."
            )


def _explain(game: str, options: AtariOptions, error: RuntimeError) -> Exception:
    # ALE does not say which modes there are before it has loaded a game, and then only loses a
    # game that is told a wrong one.
    ale = ale_py.AtariEnv(game).ale
    for name, value, available in (
        ("mode", options.mode, ale.getAvailableModes()),
        ("difficulty", options.difficulty, ale.getAvailableDifficulties()),
    ):
        if value is not None and value not in available:
            return InvalidOptionError(
                f"{name}={value}: {game} has no such {name}.",
                field=name,
                hint=f"There are {', '.join(map(str, available))}.",
                data={"available": list(available)},
            )
    return error
