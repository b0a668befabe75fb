"""The class that an environment's author subclasses."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import gymnasium
import numpy as np
from gymnasium.utils import seeding

from openenv_gym.errors import InvalidOptionError
from openenv_gym.models import Action, Observation, State


if TYPE_CHECKING:
    from openenv_gym.rubrics import Rubric

__all__ = ["Environment"]

ActT = TypeVar("ActT", bound=Action)
ObsT = TypeVar("ObsT", bound=Observation)
StateT = TypeVar("StateT", bound=State)


class Environment(Generic[ActT, ObsT, StateT]):
    """A world in terms of typed actions and observations.

    The server derives Gymnasium's spaces from the models and talks to trainers in Gymnasium's
    terms; an author writes `reset` and `step`. Where spaces depend on the options of an instance
    (a game, a board size), `__init__` sets `action_model` and `observation_model` on the instance.

    Attributes:
        action_model: Model of what `step` takes.
        observation_model: Model of what `reset` and `step` return.
        metadata: Gymnasium's metadata: ``render_modes`` and ``render_fps``.
        render_mode: One of ``metadata["render_modes"]``, or None.
        observables: Names (dotted paths below `remote_target`) of arguments-free methods and
            attributes that depend on the environment's state alone. A client that reads one gets
            it along with every later step, so that reading costs no round trip.
        rubric: What gives each step its reward, where there is one: the server calls it with the
            action and the observation of each step, whose own `reward` it may take into account
            and replaces (``docs/rubrics.md``). `__init__` sets it, by `load_rubric`.
    """

    action_model: type[ActT]
    observation_model: type[ObsT]
    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}
    render_mode: str | None = None
    observables: ClassVar[tuple[str, ...]] = ()
    rubric: Rubric | None = None

    _np_random: np.random.Generator | None = None
    _np_random_seed: int | None = None
    _episode_id: str | None = None
    _step_count: int = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ObsT:
        """Begin a new episode; a subclass calls `begin_episode` first.

        Args:
            seed: Seeds `np_random` when given (Gymnasium's rule: once, right after creation).
            options: Options of this episode. Those that the environment does not know are an error,
                by `check_reset_options`: without effect they would be taken for having one.

        Returns:
            The first observation; its `metadata` becomes Gymnasium's ``info``.
        """
        raise NotImplementedError

    def step(self, action: ActT) -> ObsT:
        """Take one step.

        Args:
            action: A validated instance of `action_model`.

        Returns:
            What follows, with `done` and `truncated` set, and `reward` where no rubric gives it.
        """
        raise NotImplementedError

    @property
    def state(self) -> State:
        """What the environment tells about itself; subclasses may return a model of their own."""
        return State(episode_id=self._episode_id, step_count=self._step_count)

    def json_schemas(self) -> dict[str, Any]:
        """Return JSON Schemas of ``action``, ``observation`` and ``state``."""
        return {
            "action": self.action_model.model_json_schema(),
            "observation": self.observation_model.model_json_schema(),
            "state": type(self.state).model_json_schema(),
        }

    def render(self) -> Any:
        """Return a picture of the current state in the form that `render_mode` asks for."""
        return None

    def save_state(self) -> Any:
        """Return plain data from which `restore_state` makes the present state again.

        Raises:
            NotImplementedError: The environment cannot do that.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot save its state.")

    def restore_state(self, saved: Any) -> None:
        """Return to a state that `save_state` returned.

        Raises:
            NotImplementedError: The environment cannot do that.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot restore a state.")

    def close(self) -> None:
        """Free what the environment holds. Called once."""

    def read_action(self, data: Mapping[str, Any]) -> Action:
        """Return the action that a typed client sent, by field.

        Raises:
            pydantic.ValidationError: `action_model` refuses it.
        """
        return self.action_model.model_validate(data)

    def legal_actions(self) -> Sequence[ActT | Mapping[str, Any]] | None:
        """Return what may be done now; an agent asks for it by ``describe_actions``.

        Returns:
            Actions, or mappings of the fields that matter; None (the default) where everything in
            the action space is legal. It is called between `reset` and the next action, and not
            with every step.
        """
        return None

    def describe_actions(self) -> dict[str, Any]:
        """Return what an agent is told about the actions, but for which of them are legal now.

        Returns:
            ``actions``: a description of each kind (`openenv_gym.spaces.describe_kind`), and
            ``tools``: of each tool its ``name``, ``description`` and ``input_schema``.
        """
        from openenv_gym.server.attributes import action_labels
        from openenv_gym.spaces.choices import describe_kind

        labels = action_labels(self.remote_target)
        return {"actions": [describe_kind(self.action_model, labels)], "tools": []}

    @property
    def remote_target(self) -> Any:
        """Object on which a client's attribute access (``env.unwrapped.NAME``) is resolved."""
        return self

    # -- for subclasses ---------------------------------------------------------------------

    def begin_episode(self, seed: int | None = None) -> None:
        """Seed the generator where a seed is given, and count a new episode."""
        if seed is not None:
            self._np_random, self._np_random_seed = seeding.np_random(seed)
        self._episode_id = uuid.uuid4().hex
        self._step_count = 0

    def check_reset_options(self, options: Mapping[str, Any] | None, *known: str) -> None:
        """Refuse options of `reset` that are not known; `reset` calls it ahead of everything else.

        What typed clients send beside, such as OpenEnv's ``episode_id``, is none of them.

        Args:
            options: The options; None or empty where there are none.
            *known: Names of those that `reset` takes.

        Raises:
            InvalidOptionError: There is another one, or it is no mapping.
        """
        if options is None:
            return
        if not isinstance(options, Mapping):
            raise InvalidOptionError(
                f"options={options!r:.80}: expected a mapping, or None.", field="options"
            )
        for name in options:
            if name not in known:
                names = ", ".join(known) or "none"
                raise InvalidOptionError(
                    f"Unknown option {name!r:.60} of reset; there are {names}.", field="options"
                )

    @property
    def episode_id(self) -> str | None:
        """Name of the running episode: made up by `begin_episode`, or given by a client."""
        return self._episode_id

    @episode_id.setter
    def episode_id(self, value: str | None) -> None:
        self._episode_id = value

    def count_step(self) -> int:
        """Count one step of the running episode and return the number of it, from 1."""
        self._step_count += 1
        return self._step_count

    @property
    def np_random(self) -> np.random.Generator:
        """The environment's generator, seeded by `reset`; from entropy when never seeded."""
        if self._np_random is None:
            self._np_random, self._np_random_seed = seeding.np_random()
        return self._np_random

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self._np_random = value
        self._np_random_seed = -1

    @property
    def np_random_seed(self) -> int:
        """Seed of `np_random`; -1 where unknown (as `gymnasium.Env` has it)."""
        if self._np_random_seed is None:
            self._np_random, self._np_random_seed = seeding.np_random()
        return self._np_random_seed


# An environment may also be any `gymnasium.Env`; the server takes either.
AnyEnvironment = Environment[Any, Any, Any] | gymnasium.Env[Any, Any]
