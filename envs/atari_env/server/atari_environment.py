"""The Atari environment: ale-py's games in terms of typed actions and observations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from atari_env.models import (
    AtariAction,
    AtariContinuousAction,
    AtariObservation,
    AtariSoundObservation,
    AtariState,
    action_model,
    game_over_model,
    observation_model,
)
from atari_env.options import AtariOptions, PreprocessOptions, parse_options
from atari_env.server.games import find_game
from atari_env.server.plain import PlainGame
from atari_env.server.preprocessed import PreprocessedGame
from atari_env.server.saving import SavedGame
from openenv_gym.models import Action
from openenv_gym.rubrics import Rubric, load_rubric
from openenv_gym.server import Environment, check_choice


__all__ = ["AtariEnvironment"]

AnyAction = AtariAction | AtariContinuousAction
AnyObservation = AtariObservation | AtariSoundObservation

_FOREIGN_FIELDS = frozenset({"game_name", "obs_type", "full_action_space"})


class AtariEnvironment(Environment[AnyAction, AnyObservation, AtariState]):
    """A game of the Atari 2600.

    Without preprocessing it is ``ALE/<Game>-v5`` to the bit: spaces, observations, rewards, ends,
    info, and the generator's state. With ``preprocess=True`` it is one game of ale-py's
    ``AtariVectorEnv``.

    Args:
        game: Name of the game, ``"space_invaders"`` or ``"SpaceInvaders"``.
        preprocess: Scale, stack and clip as is usual in reinforcement learning.
        render_mode: ``"rgb_array"``, or None; without preprocessing also ``"human"``, which opens
            a window on the machine that the emulator runs on.
        rubric: What gives the reward instead: a rubric, or ``"module:attribute"``. It finds the
            game's own in `observation.reward`.
        **options: Those of `AtariOptions`, or with preprocessing of `PreprocessOptions`.

    Raises:
        InvalidOptionError: A game, an option or a value that does not exist.
    """

    action_model: type[AnyAction] = AtariAction
    observation_model: type[AnyObservation] = AtariObservation
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["human", "rgb_array"], "render_fps": 30}

    def __init__(
        self,
        game: str = "pong",
        *,
        preprocess: bool = False,
        render_mode: str | None = None,
        rubric: Rubric | str | None = None,
        **options: Any,
    ) -> None:
        self._name = find_game(game)
        check_choice("preprocess", preprocess, (True, False))
        modes = ("rgb_array",) if preprocess else ("human", "rgb_array")
        check_choice("render_mode", render_mode, (*modes, None))
        self.render_mode = render_mode
        self.rubric = load_rubric(rubric)
        self._game: PlainGame | PreprocessedGame
        if preprocess:
            chosen = parse_options(PreprocessOptions, options)
            self._game = PreprocessedGame(self._name, chosen)
            self._make_models(chosen.continuous, sound=False)
            # type: ignore[misc] here and below: of a class variable, this instance has its own.
            self.metadata = {**self.metadata, "render_modes": list(modes)}  # type: ignore[misc]
        else:
            plain = parse_options(AtariOptions, options)
            self._game = PlainGame(self._name, plain, render_mode)
            self._make_models(plain.continuous, sound=plain.sound_obs)
        self.observables = self._game.observables  # type: ignore[misc]

    def _make_models(self, continuous: bool, sound: bool) -> None:
        actions, observations = self._game.action_space, self._game.observation_space
        self.action_model = AtariContinuousAction if continuous else action_model(int(actions.n))
        screens = observations["image"] if sound else observations
        self.observation_model = observation_model(screens.shape, sound=sound)
        self._sound = sound

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> AnyObservation:
        """Begin a new game. No options are known."""
        # ALE seeds its generator anew after this, from a number that it derives from the seed.
        self.begin_episode(seed)
        observation, info = self._game.reset(seed, options)
        return self._observation(observation, None, False, False, info)

    def step(self, action: AnyAction) -> AnyObservation:
        """Play on with one action for as many frames as `frameskip` says."""
        result = self._game.step(
            action.action_id if isinstance(action, AtariAction) else action.joystick
        )
        self.count_step()
        return self._observation(*result)

    def read_action(self, data: Mapping[str, Any]) -> Action:
        """Return the action that a typed client sent.

        Clients of OpenEnv name a game with each action, which counts for nothing: the server goes
        by its options.

        Raises:
            pydantic.ValidationError: The model refuses it.
        """
        return super().read_action(
            {name: value for name, value in data.items() if name not in _FOREIGN_FIELDS}
        )

    def _observation(
        self,
        observation: Any,
        reward: float | None,
        terminated: bool,
        truncated: bool,
        info: dict[str, Any],
    ) -> AnyObservation:
        model = self.observation_model
        if terminated and truncated:
            model = game_over_model(model)
        # Nothing here needs to be validated: it is what ALE says, and a screen has 100 KB.
        return model.model_construct(
            **(observation if self._sound else {"screen": observation}),
            reward=reward,
            done=terminated or truncated,
            truncated=truncated,
            metadata=info,
        )

    @property
    def state(self) -> AtariState:
        """What is being played, and how."""
        return AtariState(
            episode_id=self._episode_id,
            step_count=self._step_count,
            game_name=self._name,
            **self._game.describe(),
        )

    def render(self) -> Any:
        """Return the screen, (height, width, 3) uint8, in render mode ``"rgb_array"``."""
        return None if self.render_mode is None else self._game.render()

    def close(self) -> None:
        """End the emulator."""
        self._game.close()

    @property
    def remote_target(self) -> Any:
        """ale-py's environment, for ``env.unwrapped.ale``, ``get_action_meanings()`` and so on."""
        return self._game.target

    def save_state(self) -> dict[str, Any]:
        """Return the whole state: emulator, screen, sticky action and all generators.

        Raises:
            NotImplementedError: With preprocessing or sound, or for a game that ale-py cannot save
                in full.
        """
        return SavedGame.of(self, self._saved_options, **self._game.save())

    def restore_state(self, saved: Any) -> None:
        """Return to a state that `save_state` returned, here or in another process.

        The environment must play the same game with the same options. The emulator gets what it
        can bear, and nothing else (`atari_env.server.snapshots`).

        Raises:
            InvalidOptionError: It is no such state, or one of another game.
            NotImplementedError: As for `save_state`.
        """
        self._game.check_saving()
        state = SavedGame.read(saved, self._saved_options)
        try:
            self._game.restore(state)
        except ValueError as error:
            raise state.refusal(str(error)) from None
        state.apply(self)

    @property
    def _saved_options(self) -> dict[str, Any]:
        return {"game": self._name}

    # The generator is that of ale-py's environment (or beside the engine, which has none that can
    # be reached), so that whoever reads or sets it here reads or sets that one. The base class's
    # `np_random` and `np_random_seed` go through these two.

    @property
    def _np_random(self) -> np.random.Generator | None:
        generator: np.random.Generator | None = self._game.target._np_random
        return generator

    @_np_random.setter
    def _np_random(self, value: np.random.Generator | None) -> None:
        self._game.target._np_random = value

    @property
    def _np_random_seed(self) -> int | None:
        seed: int | None = self._game.target._np_random_seed
        return seed

    @_np_random_seed.setter
    def _np_random_seed(self, value: int | None) -> None:
        self._game.target._np_random_seed = value
