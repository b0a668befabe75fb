"""One game on ale-py's vectorised engine: ``preprocess=True``."""

from __future__ import annotations

from typing import Any

import numpy as np
from ale_py import AtariVectorEnv
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from atari_env.options import PreprocessOptions
from atari_env.server.saving import SavedGame
from openenv_gym.errors import InvalidActionError, ResetNeededError


__all__ = ["Engine", "PreprocessedGame", "engine_seed"]

_INFO = ("lives", "frame_number", "episode_frame_number")


class Engine(AtariVectorEnv):
    """ale-py's vectorised engine."""

    # ale-py writes its autoreset mode into `metadata`, which it inherits: into that of every
    # vector environment in the process, if this dictionary did not catch it.
    metadata = dict(VectorEnv.metadata)


class PreprocessedGame:
    """One game whose frames are scaled, stacked, and so on.

    Args:
        game: The game's name in snake case.
        options: What to do with the frames.

    Attributes:
        target: This object: the engine has little to offer to a client.
        observables: What can be observed on `target`.
        action_space: ``Discrete(n)``, or a Box of shape (3,) where actions are continuous.
        observation_space: Box of shape (stack, height, width), or (stack, height, width, 3) in
            colour; uint8.
        lives: Lives left.
    """

    observables: tuple[str, ...] = ("lives",)

    # The environment's generator. The engine has generators of its own, out of reach.
    _np_random: np.random.Generator | None = None
    _np_random_seed: int | None = None

    def __init__(self, game: str, options: PreprocessOptions) -> None:
        self._options = options
        self._engine = Engine(game, 1, **options.model_dump())
        self._meanings: list[str] = [action.name for action in self._engine.ale.get_action_set()]
        self._stack: NDArray[np.uint8] | None = None
        self._over = False
        self.target: Any = self
        self.action_space: Any = self._engine.single_action_space
        self.observation_space: Any = self._engine.single_observation_space
        self.lives = 0

    def reset(
        self, seed: int | None, options: dict[str, Any] | None
    ) -> tuple[NDArray[np.uint8], dict[str, int]]:
        """Begin a new game, whatever state the last one is in.

        Args:
            seed: Seed of the emulator and of the idle frames; None goes on with what there is.
            options: None are known.

        Returns:
            Observation and info.
        """
        # An explicit reset also clears the engine's own wish to reset, so that it does not
        # swallow the step that follows.
        stacks, infos = self._engine.reset(seed=None if seed is None else engine_seed(seed))
        self._over = False
        self._stack = stacks[0]
        return stacks[0], self._info(infos)

    def step(
        self, action: int | NDArray[np.float32]
    ) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, int]]:
        """Take one step.

        Args:
            action: Number of an action; or, where actions are continuous, shape (3,), float32.

        Returns:
            Observation (an array of its own each time), reward, terminated, truncated, info.

        Raises:
            InvalidActionError: There is no such action.
            ResetNeededError: Before `reset`, or after the end of an episode.
        """
        # The engine would begin the next episode by itself, and this step would be lost in it.
        if self._stack is None or self._over:
            raise ResetNeededError(
                "The episode is over." if self._over else "Cannot call step before reset.",
                hint="Call reset() first.",
            )
        stacks, rewards, terminations, truncations, infos = self._engine.step(self._batch(action))
        terminated, truncated = bool(terminations[0]), bool(truncations[0])
        info = self._info(infos)
        life_lost = self._options.life_loss_info and not self._options.episodic_life
        self._over = truncated or (terminated and not (life_lost and self.lives > 0))
        self._stack = stacks[0]
        return stacks[0], float(rewards[0]), terminated, truncated, info

    def _batch(self, action: int | NDArray[np.float32]) -> NDArray[Any]:
        """Return the action as a batch of one."""
        if self._options.continuous:
            return np.asarray(action, np.float32)[None]
        # The engine waits for ever for the result of an action that does not exist.
        if not 0 <= action < len(self._meanings):
            raise InvalidActionError(
                f"Action {action} does not exist; the game has {len(self._meanings)} actions, "
                "numbered from 0.",
                field="action_id",
            )
        return np.array([action], np.int64)

    def render(self) -> NDArray[np.uint8] | None:
        """Return the newest frame of the stack.

        Returns:
            Shape (height, width, 3), uint8; None before the first reset.
        """
        if self._stack is None:
            return None
        frame: NDArray[np.uint8] = self._stack[-1]
        return np.repeat(frame[:, :, None], 3, axis=2) if frame.ndim == 2 else frame.copy()

    def close(self) -> None:
        """End the engine and its thread."""
        self._engine.close()
        del self._engine

    def describe(self) -> dict[str, Any]:
        """Return the fields of `AtariState` that the game knows."""
        options = self._options.model_dump(
            include={"full_action_space", "repeat_action_probability", "frameskip"}
        )
        return {
            **options,
            "obs_type": "grayscale" if self._options.grayscale else "rgb",
            "lives": self.lives,
            "preprocess": True,
        }

    def check_saving(self) -> None:
        """Refuse: the engine gives nothing away, and takes nothing in.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("With preprocess=True, ale-py can neither save nor restore.")

    def save(self) -> dict[str, Any]:
        """Refuse; see `check_saving`."""
        self.check_saving()
        return {}

    def restore(self, saved: SavedGame) -> None:
        """Refuse; see `check_saving`."""
        self.check_saving()

    def get_action_meanings(self) -> list[str]:
        """Return the names of the actions, as ``AtariEnv`` does."""
        return list(self._meanings)

    def _info(self, infos: dict[str, NDArray[np.int32]]) -> dict[str, int]:
        info = {name: int(infos[name][0]) for name in _INFO}
        self.lives = info["lives"]
        return info


def engine_seed(seed: int) -> int:
    """Return the seed by which the engine knows a seed of Gymnasium's.

    The engine takes 31 bits. Smaller seeds are passed on as they are, as ``AtariVectorEnv`` does
    for each of its games; larger ones, which it refuses, are mapped to one of those.

    Args:
        seed: Any integer that is not negative.
    """
    if seed < 1 << 31:
        return seed
    return int(np.random.SeedSequence(seed).generate_state(1)[0] >> 1)
