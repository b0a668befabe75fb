"""The Atari environment: ale-py's emulator in terms of typed actions and observations."""

from __future__ import annotations

from typing import Any, ClassVar

import ale_py
import numpy as np
from openenv_gym.errors import InvalidOptionError
from openenv_gym.server import Environment

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
from atari_env.server.emulator import Emulator
from atari_env.server.games import find_game
from atari_env.server.preprocessed import PreprocessedGame


__all__ = ["AtariEnvironment"]

AnyAction = AtariAction | AtariContinuousAction
AnyObservation = AtariObservation | AtariSoundObservation

_UNFAITHFUL_SNAPSHOTS = frozenset({"miniature_golf", "pitfall2", "qbert", "tetris"})
"""Games whose state ale-py 0.12.1 does not save in full; that of qbert and tetris, restored into
another process, even corrupts its memory. Corrected after 0.12.1 (ale-py #732)."""


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
        **options: Those of `AtariOptions`, or with preprocessing of `PreprocessOptions`.

    Raises:
        InvalidOptionError: A game, an option or a value that does not exist.
    """

    action_model: type[AnyAction] = AtariAction
    observation_model: type[AnyObservation] = AtariObservation
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["human", "rgb_array"], "render_fps": 30}
    observables: tuple[str, ...] = ()  # type: ignore[misc] # depends on the options

    def __init__(
        self,
        game: str = "pong",
        *,
        preprocess: bool = False,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self._game = find_game(game)
        if type(preprocess) is not bool:
            raise InvalidOptionError(
                f"preprocess={preprocess!r}: expected True or False.", field="preprocess"
            )
        modes = ("rgb_array",) if preprocess else ("human", "rgb_array")
        if render_mode is not None and render_mode not in modes:
            raise InvalidOptionError(
                f"render_mode={render_mode!r}: expected None or {' or '.join(map(repr, modes))}.",
                field="render_mode",
            )
        self.render_mode = render_mode
        self._options: AtariOptions | PreprocessOptions
        self._source: ale_py.AtariEnv | PreprocessedGame
        if preprocess:
            self._options = parse_options(PreprocessOptions, options)
            self._source = PreprocessedGame(self._game, self._options)
            self.metadata = {**self.metadata, "render_modes": ["rgb_array"]}  # type: ignore[misc]
            self.observables = ("lives",)
            self._sound = False
        else:
            self._options = parse_options(AtariOptions, options)
            self._source = _make_ale(self._game, self._options, render_mode)
            self.observables = _OBSERVABLES
            self._sound = self._options.sound_obs
        self._choose_models()

    def _choose_models(self) -> None:
        actions, observations = self._source.action_space, self._source.observation_space
        if self._options.continuous:
            self.action_model = AtariContinuousAction
        else:
            self.action_model = action_model(int(actions.n))
        screens = observations["image"] if self._sound else observations
        self.observation_model = observation_model(screens.shape, sound=self._sound)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> AnyObservation:
        """Begin a new game. No options are known."""
        if isinstance(self._source, PreprocessedGame):
            self.begin_episode(seed)
            observation, info = self._source.reset(seed)
        else:
            # ALE seeds the generator itself, from a number that it derives from the seed.
            observation, info = self._source.reset(seed=seed, options=options)
            self.begin_episode()
        return self._observation(observation, None, False, False, info)

    def step(self, action: AnyAction) -> AnyObservation:
        """Play on with one action for as many frames as `frameskip` says."""
        value = action.action_id if isinstance(action, AtariAction) else action.joystick
        result = self._source.step(value)
        self.count_step()
        return self._observation(*result)

    def _observation(
        self,
        observation: Any,
        reward: float | None,
        terminated: bool,
        truncated: bool,
        info: dict[str, Any],
    ) -> AnyObservation:
        # Nothing here needs to be validated: it is what ALE says, and a screen has 100 KB.
        model = self.observation_model
        if terminated and truncated:
            model = game_over_model(model)
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
        options = self._options
        common = {
            "episode_id": self._episode_id,
            "step_count": self._step_count,
            "game_name": self._game,
            "full_action_space": options.full_action_space,
            "repeat_action_probability": options.repeat_action_probability,
            "frameskip": options.frameskip,
        }
        if isinstance(self._source, PreprocessedGame):
            return AtariState(
                **common,
                obs_type="grayscale" if options.grayscale else "rgb",
                lives=self._source.lives,
                preprocess=True,
            )
        return AtariState(
            **common,
            obs_type=options.obs_type,
            mode=options.mode,
            difficulty=options.difficulty,
            lives=self._source.ale.lives(),
        )

    def render(self) -> Any:
        """Return the screen, (height, width, 3) uint8, in render mode ``"rgb_array"``."""
        return None if self.render_mode is None else self._source.render()

    def close(self) -> None:
        """End the emulator."""
        self._source.close()

    @property
    def remote_target(self) -> Any:
        """ale-py's environment, for ``env.unwrapped.ale``, ``get_action_meanings()`` and so on."""
        return self._source

    def save_state(self) -> dict[str, Any]:
        """Return the whole state: emulator, screen, sticky action and all generators.

        The data is for this environment alone. What is restored goes to the emulator without much
        of a check, so it must come from a source as trusted as the program itself.

        Raises:
            NotImplementedError: With preprocessing or sound, or for a game that ale-py cannot save
                in full.
        """
        source = self._saving_source()
        generator = source._np_random
        return {
            "version": 1,
            "game": self._game,
            "emulator": source.ale.save(),
            "np_random": generator.bit_generator.state,
            "np_random_seed": source._np_random_seed,
            "episode_id": self._episode_id,
            "step_count": self._step_count,
        }

    def restore_state(self, saved: dict[str, Any]) -> None:
        """Return to a state that `save_state` returned, here or in another process.

        The environment must play the same game with the same options.

        Raises:
            InvalidOptionError: It is no such state, or one of another game.
            NotImplementedError: As for `save_state`.
        """
        source = self._saving_source()
        try:
            if (saved["version"], saved["game"]) != (1, self._game):
                raise ValueError(f"it is one of {saved['game']!r:.40}")
            generator = np.random.Generator(_bit_generator(saved["np_random"]))
            source.ale.restore(saved["emulator"])
            source._np_random = generator
            source._np_random_seed = saved["np_random_seed"]
            self._episode_id = saved["episode_id"]
            self._step_count = int(saved["step_count"])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidOptionError(
                f"This is not a saved state of {self._game}: {error}.",
                field="saved",
                hint="Pass what save_state() of an environment with the same options returned.",
            ) from error

    def _saving_source(self) -> ale_py.AtariEnv:
        if isinstance(self._source, PreprocessedGame):
            raise NotImplementedError("With preprocess=True, ale-py cannot save a state.")
        if self._sound:
            raise NotImplementedError("With sound_obs=True, ale-py cannot save a state in full.")
        if self._game in _UNFAITHFUL_SNAPSHOTS and _ale_version() <= (0, 12, 1):
            raise NotImplementedError(
                f"ale-py {ale_py.__version__} cannot save the state of {self._game} in full; a "
                "later version can."
            )
        return self._source

    # The generator is the one of ale-py's environment (or beside the engine, where that has
    # none), so that whoever reads or sets it here reads or sets that. The base class's
    # `np_random` and `np_random_seed` go through these two.

    @property
    def _np_random(self) -> np.random.Generator | None:  # type: ignore[override]
        return self._source._np_random  # type: ignore[no-any-return]

    @_np_random.setter
    def _np_random(self, value: np.random.Generator | None) -> None:
        self._source._np_random = value

    @property
    def _np_random_seed(self) -> int | None:  # type: ignore[override]
        return self._source._np_random_seed  # type: ignore[no-any-return]

    @_np_random_seed.setter
    def _np_random_seed(self, value: int | None) -> None:
        self._source._np_random_seed = value


_OBSERVABLES = (
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


def _make_ale(game: str, options: AtariOptions, render_mode: str | None) -> ale_py.AtariEnv:
    values = options.model_dump()
    try:
        env = ale_py.AtariEnv(game, render_mode=render_mode, **values)
    except RuntimeError as error:
        # ALE does not say which modes there are, and tells them only where it has loaded a game.
        plain = ale_py.AtariEnv(game).ale
        for name, available in (
            ("mode", plain.getAvailableModes()),
            ("difficulty", plain.getAvailableDifficulties()),
        ):
            if values[name] is not None and values[name] not in available:
                raise InvalidOptionError(
                    f"{name}={values[name]}: {game} has no such {name}.",
                    field=name,
                    hint=f"There are {', '.join(map(str, available))}.",
                    data={"available": list(available)},
                ) from error
        raise
    env.ale = Emulator(env.ale)
    return env


def _bit_generator(state: dict[str, Any]) -> np.random.BitGenerator:
    if not isinstance(state, dict) or state.get("bit_generator") not in (
        "MT19937",
        "PCG64",
        "PCG64DXSM",
        "Philox",
        "SFC64",
    ):
        raise ValueError("its generator is unknown")
    generator: np.random.BitGenerator = getattr(np.random, state["bit_generator"])()
    generator.state = state
    return generator


def _ale_version() -> tuple[int, ...]:
    return tuple(int(part) for part in ale_py.__version__.split(".")[:3] if part.isdigit())
