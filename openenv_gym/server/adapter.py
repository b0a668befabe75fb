"""An `Environment` as a `gymnasium.Env`: models inside, samples of spaces outside."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeVar

import gymnasium

from openenv_gym.errors import ConfigurationError
from openenv_gym.server.scoring import begin_scoring, score_step
from openenv_gym.spaces.mapping import ModelMapping


if TYPE_CHECKING:
    import numpy as np
    from pydantic import BaseModel

    from openenv_gym.models import Observation
    from openenv_gym.server.environment import Environment

__all__ = ["TypedEnv"]

ModelT = TypeVar("ModelT", bound="BaseModel")


class TypedEnv(gymnasium.Env[Any, Any]):
    """Presents an `Environment` in Gymnasium's terms.

    Its spaces are those of the models that the environment has once it is made. Its random
    generator *is* the environment's: reading and writing `np_random`, `np_random_seed` and the
    attributes behind them reaches through.

    Attributes:
        environment: The environment.
        action_space: Space of `environment.action_model`, this instance's own copy.
        observation_space: Space of `environment.observation_model`, likewise.
        metadata: A copy of the environment's; ``render_modes`` is always there.
    """

    def __init__(self, environment: Environment[Any, Any, Any]) -> None:
        """Present `environment`.

        Raises:
            ConfigurationError: It names no action or observation model.
            SpaceError: One of them cannot be mapped to a space.
        """
        self.environment = environment
        self._action: ModelMapping[Any] = _mapping(environment, "action_model")
        self._observation: ModelMapping[Any] = _mapping(environment, "observation_model")
        # The mappings are shared by all instances; a space's random generator must not be.
        self.action_space = copy.deepcopy(self._action.space)
        self.observation_space = copy.deepcopy(self._observation.space)
        # Wrappers append to the list of render modes.
        self.metadata = {"render_modes": [], **copy.deepcopy(environment.metadata)}
        self._closed = False

    def __str__(self) -> str:
        return f"<{type(self).__name__}<{type(self.environment).__name__}>>"

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode.

        Args:
            seed: Seeds the environment's generator when given.
            options: Options of this episode.

        Returns:
            A sample of `observation_space`, and the observation's metadata as ``info``.

        Raises:
            TypeError: The environment returned something other than its observation model.
        """
        observation = self.environment.reset(seed=seed, options=options)
        self._check(observation, "reset")
        if self.environment.rubric is not None:
            begin_scoring(self.environment.rubric)
        return self._observation.to_sample(observation), dict(observation.metadata)

    def step(self, action: Any) -> tuple[Any, bool | int | float, bool, bool, dict[str, Any]]:
        """Take one step.

        Args:
            action: A sample of `action_space`.

        Returns:
            A sample of `observation_space`; the reward, 0.0 where the environment gave None and
            otherwise of the very type that it gave (an int stays an int); `terminated`;
            `truncated`; and the observation's metadata as ``info``.

        Raises:
            InvalidActionError: The action is not in the space, or the action model refuses it.
            RubricError: Its rubric has no score for the step.
            TypeError: The environment returned something other than its observation model.
        """
        taken = self._action.to_model(action)
        observation = self.environment.step(taken)
        self._check(observation, "step")
        if self.environment.rubric is not None:
            score_step(self.environment.rubric, taken, observation)
        reward = observation.reward
        return (
            self._observation.to_sample(observation),
            0.0 if reward is None else reward,
            # Models made without validation may hold NumPy's booleans, which trainers refuse.
            bool(observation.terminated),
            bool(observation.truncated),
            dict(observation.metadata),
        )

    def render(self) -> Any:
        """Return a picture of the current state, as the environment's render mode has it."""
        return self.environment.render()

    def close(self) -> None:
        """Close the environment, once however often this is called."""
        if not self._closed:
            self._closed = True
            self.environment.close()

    @property
    def remote_target(self) -> Any:
        """Object on which a client's attribute access is resolved: the environment's choice."""
        return self.environment.remote_target

    def _check(self, observation: Observation, method: str) -> None:
        if not isinstance(observation, self._observation.model):
            raise TypeError(
                f"{type(self.environment).__name__}.{method} returned a "
                f"{type(observation).__name__}, expected a {self._observation.model.__name__}."
            )

    # -- the environment's own attributes, which `gymnasium.Env` would shadow --------------------

    @property
    def render_mode(self) -> str | None:
        """The environment's render mode."""
        return self.environment.render_mode

    @render_mode.setter
    def render_mode(self, value: str | None) -> None:
        self.environment.render_mode = value

    @property
    def np_random(self) -> np.random.Generator:
        """The environment's generator."""
        return self.environment.np_random

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self.environment.np_random = value

    @property
    def np_random_seed(self) -> int:
        """Seed of the environment's generator; -1 where unknown."""
        return self.environment.np_random_seed

    @np_random_seed.setter
    def np_random_seed(self, value: int) -> None:
        self.environment._np_random_seed = value

    @property
    def _np_random(self) -> np.random.Generator | None:
        return self.environment._np_random

    @_np_random.setter
    def _np_random(self, value: np.random.Generator | None) -> None:
        self.environment._np_random = value

    @property
    def _np_random_seed(self) -> int | None:
        return self.environment._np_random_seed

    @_np_random_seed.setter
    def _np_random_seed(self, value: int | None) -> None:
        self.environment._np_random_seed = value


def _mapping(environment: Environment[Any, Any, Any], name: str) -> ModelMapping[Any]:
    model = getattr(environment, name, None)
    if not isinstance(model, type):
        raise ConfigurationError(
            f"{type(environment).__name__} has no `{name}`.",
            field=name,
            hint="Set it on the class, or on the instance in `__init__`.",
        )
    return ModelMapping.of(model)
