"""Many games on ale-py's vectorised engine: ``preprocess=True`` in a vector session.

Each game depends on its own seed alone, as a single one does (`PreprocessedGame`), so that it does
not matter how many share an engine, or a server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from atari_env.options import PreprocessOptions, parse_options
from atari_env.server.games import find_game
from atari_env.server.preprocessed import Engine, engine_seed
from openenv_gym.errors import InvalidOptionError
from openenv_gym.server.vector import NativeRequest


__all__ = ["AtariGames", "make_games"]


def make_games(request: NativeRequest) -> VectorEnv[Any, Any, Any] | None:
    """Make the games of a vector session, where ale-py's engine can do what is asked.

    Returns:
        None where single games do it: without preprocessing, with a rubric, with a limit in steps
        (the engine counts frames), or without autoreset (which it does not have).

    Raises:
        InvalidOptionError: An option that does not exist; or the engine was asked for by name, and
            cannot do it.
    """
    options = dict(request.options)
    why = ""
    if options.pop("preprocess", False) is not True:
        why, name = "it preprocesses always; add preprocess=True", "engine"
    elif options.pop("rubric", None) is not None:
        why, name = "it has no steps that a rubric could score", "rubric"
    elif request.max_episode_steps is not None:
        why, name = "it has no time limit in steps", "max_episode_steps"
    elif request.autoreset_mode is AutoresetMode.DISABLED:
        why, name = "it always resets by itself", "autoreset_mode"
    if why:
        if request.requested:
            raise InvalidOptionError(f"ale-py's vectorised engine: {why}.", field=name)
        if options.get("life_loss_info") is True:
            raise InvalidOptionError(
                "life_loss_info=True: a lost life is not the end of an episode, which ale-py's "
                f"vectorised engine alone can tell apart; here {why}.",
                field=name,
            )
        return None
    game = find_game(options.pop("game", "pong"))
    mode = options.pop("render_mode", None)
    if mode not in (None, "rgb_array"):
        raise InvalidOptionError(
            f"render_mode={mode!r}: expected None or 'rgb_array'.", field="render_mode"
        )
    return AtariGames(request, game, parse_options(PreprocessOptions, options), mode)


class AtariGames(VectorEnv[Any, Any, Any]):
    """Games on one ``AtariVectorEnv``, with infos whose numbers hold for the client's vector.

    Args:
        request: How many, and from which number on.
        game: The game's name in snake case.
        options: What to do with the frames.
        render_mode: ``"rgb_array"``, or None.
    """

    independent = True

    def __init__(
        self, request: NativeRequest, game: str, options: PreprocessOptions, render_mode: str | None
    ) -> None:
        self._engine = Engine(
            game,
            request.num_envs,
            autoreset_mode=request.autoreset_mode,
            **options.model_dump(),
        )
        self._first = request.first
        self._last: NDArray[np.uint8] | None = None
        self._lives: list[int] = [0] * request.num_envs
        self._meanings = [action.name for action in self._engine.ale.get_action_set()]
        self._generators: list[np.random.Generator | None] = [None] * request.num_envs
        self._seeds: list[int | None] = [None] * request.num_envs
        self._attributes: dict[str, list[Any]] = {}
        self.num_envs = request.num_envs
        self.render_mode = render_mode
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 30}
        for name in ("action_space", "observation_space"):
            setattr(self, name, getattr(self._engine, name))
            setattr(self, f"single_{name}", getattr(self._engine, f"single_{name}"))

    def reset(
        self,
        *,
        seed: Sequence[int | None] | None = None,  # type: ignore[override]  # one for each
        options: dict[str, Any] | None = None,
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Begin new games.

        Args:
            seed: One for each game; None goes on with what there is.
            options: ``reset_mask`` selects games; no others are known.
        """
        mask = None if options is None else options.get("reset_mask")
        chosen = range(self.num_envs) if mask is None else np.flatnonzero(mask).tolist()
        numbers = [None] * self.num_envs if seed is None else list(seed)
        given = {i: number for i in chosen if (number := numbers[i]) is not None}
        # Made before anything changes: it refuses what is no seed.
        made = {i: seeding.np_random(number)[0] for i, number in given.items()}
        for i, generator in made.items():
            self._seeds[i], self._generators[i] = given[i], generator
        seeds = np.array([engine_seed(given[i]) if i in given else -1 for i in chosen])
        observations, infos = self._engine.reset(
            seed=seeds, options=None if mask is None else {"reset_mask": mask}
        )
        self._last = observations
        return observations, self._infos(infos, None)

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[NDArray[np.uint8], Any, Any, Any, dict[str, Any]]:
        """Take one step in each."""
        observations, rewards, terminations, truncations, infos = self._engine.step(actions)
        self._last = observations
        ended = terminations | truncations if "final_obs" in infos else None
        return observations, rewards, terminations, truncations, self._infos(infos, ended)

    def _infos(self, infos: dict[str, Any], ended: NDArray[np.bool_] | None) -> dict[str, Any]:
        """Return infos with numbers that hold for all servers, and Gymnasium's form of the end."""
        found = dict(infos)
        if self._first:
            found["env_id"] = infos["env_id"] + np.int32(self._first)
        self._lives = infos["lives"].tolist()
        if ended is not None:
            # The engine gives a row for each game, whether it has ended or not.
            final = np.full(self.num_envs, None, object)
            for i in np.flatnonzero(ended):
                final[i] = infos["final_obs"][i]
            found.update(final_obs=final, _final_obs=ended, final_info={}, _final_info=ended.copy())
        return found

    def render(self) -> tuple[Any, ...] | None:
        """Return the newest frame of each game, (height, width, 3), uint8."""
        if self.render_mode is None or self._last is None:
            return None
        frames = self._last[:, -1]
        if frames.ndim == 3:
            frames = np.repeat(frames[..., None], 3, axis=3)
        return tuple(frames)

    def call(self, name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Return for each game what a single one has under this name."""
        if name in self._attributes:
            return list(self._attributes[name])
        if name == "lives":
            return list(self._lives)
        if name in ("np_random", "np_random_seed"):
            for i, generator in enumerate(self._generators):
                if generator is None:
                    self._generators[i], self._seeds[i] = seeding.np_random()
            return list(self._generators if name == "np_random" else self._seeds)
        if name == "render":
            return list(self.render() or [None] * self.num_envs)
        if name == "get_action_meanings":
            return [list(self._meanings) for _ in range(self.num_envs)]
        if name in ("action_space", "observation_space"):
            name = f"single_{name}"
        found = getattr(self, name)
        value = found(*args, **kwargs) if callable(found) else found
        return [value] * self.num_envs

    def set_attr(self, name: str, values: Sequence[Any]) -> None:
        """Keep a value for each game."""
        self._attributes[name] = list(values)

    def close_extras(self, **kwargs: Any) -> None:
        """End the engine and its threads."""
        del self._engine
