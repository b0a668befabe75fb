"""Typed operations: actions, observations and state as models (docs/protocol.md, section 4.7)."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from openenv_gym import errors
from openenv_gym.models import Action, Observation
from openenv_gym.server.plain import to_plain
from openenv_gym.server.scoring import begin_scoring, score_step
from openenv_gym.spaces.actions import check_hosted_action
from openenv_gym.spaces.mapping import ModelMapping


if TYPE_CHECKING:
    import gymnasium

    from openenv_gym.server.environment import Environment

__all__ = [
    "Outcome",
    "TypedGymnasium",
    "TypedOwn",
    "outcome_to_json",
    "outcome_to_values",
]

_BASE = frozenset(Observation.model_fields)


class Outcome(NamedTuple):
    """What a reset or a step leads to.

    Attributes:
        observation: The observation.
        reward: Reward; None after a reset, or where the environment gives none.
        done: The episode is over.
        truncated: It was cut off.
        metadata: The environment's ``info``.
    """

    observation: Observation
    reward: Any
    done: bool
    truncated: bool
    metadata: dict[str, Any]


class TypedOwn:
    """An `Environment`, which is typed by itself.

    Args:
        environment: The environment.
    """

    def __init__(self, environment: Environment[Any, Any, Any]) -> None:
        self._environment = environment

    @property
    def action_model(self) -> type[Action]:
        """Model of its actions."""
        return self._environment.action_model

    @property
    def observation_model(self) -> type[Observation]:
        """Model of its observations."""
        return self._environment.observation_model

    def reset(self, arguments: Mapping[str, Any]) -> Outcome:
        """Begin an episode.

        Args:
            arguments: ``seed``, ``options``, ``episode_id`` and whatever `reset` takes.

        Raises:
            InvalidOptionError: `reset` does not take one of them.
        """
        environment = self._environment
        taken = _taken(environment.reset, arguments)
        observation = environment.reset(**taken)
        if "episode_id" in arguments and "episode_id" not in taken:
            environment.episode_id = arguments["episode_id"]
        self._check(observation)
        if environment.rubric is not None:
            begin_scoring(environment.rubric)
        return self._outcome(observation)

    def step(
        self, action: Mapping[str, Any], steps: int, timeout_s: float | None = None
    ) -> Outcome:
        """Take a step.

        Args:
            action: The action, by field.
            steps: How many there have been in this episode, with this one.
            timeout_s: How long it may take, where the environment has such a limit.

        Raises:
            InvalidActionError: The environment's model refuses the action.
            RubricError: The environment's rubric has no score for the step.
        """
        try:
            read = self._environment.read_action(action)
        except ValidationError as error:
            raise refused(error) from error
        step = self._environment.step
        if timeout_s is None or "timeout_s" not in inspect.signature(step).parameters:
            observation = step(read)
        else:
            observation = step(read, timeout_s=timeout_s)  # type: ignore[call-arg]
        self._check(observation)
        if self._environment.rubric is not None:
            score_step(self._environment.rubric, read, observation)
        return self._outcome(observation)

    def _check(self, observation: Any) -> None:
        if not isinstance(observation, Observation):
            raise TypeError(
                f"{type(self._environment).__name__} returned a {type(observation).__name__}, "
                "expected an Observation."
            )

    @staticmethod
    def _outcome(observation: Observation) -> Outcome:
        return Outcome(
            observation,
            observation.reward,
            bool(observation.done),
            bool(observation.truncated),
            dict(observation.metadata),
        )


class TypedGymnasium:
    """A Gymnasium environment, whose models are made from its spaces.

    Args:
        env: The environment.
        time_limit: Steps after which its episodes are truncated; None if never.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], time_limit: int | None) -> None:
        from openenv_gym.spaces import model_from_space

        self._env = env
        self._time_limit = time_limit
        self.action_model = model_from_space(env.action_space, Action, "action")
        self.observation_model = model_from_space(env.observation_space, Observation, "observation")
        self._actions = ModelMapping.of(self.action_model)
        self._observations = ModelMapping.of(self.observation_model)

    def reset(self, arguments: Mapping[str, Any]) -> Outcome:
        """See `TypedOwn.reset`; the arguments are ``seed``, ``options`` and ``episode_id``."""
        known = {name: value for name, value in arguments.items() if name != "episode_id"}
        observation, info = self._env.reset(**_taken(self._env.reset, known))
        return Outcome(self._observations.to_model(observation), None, False, False, info)

    def step(
        self, action: Mapping[str, Any], steps: int, timeout_s: float | None = None
    ) -> Outcome:
        """See `TypedOwn.step`."""
        try:
            read = self._actions.to_sample(self.action_model.model_validate(action))
        except ValidationError as error:
            raise refused(error) from error
        check_hosted_action(self._env.action_space, read)
        observation, reward, terminated, truncated, info = self._env.step(read)
        over = self._time_limit is not None and steps >= self._time_limit
        return Outcome(
            self._observations.to_model(observation),
            reward,
            bool(terminated or truncated or over),
            bool((truncated or over) and not terminated),
            info,
        )


def _taken(reset: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that `reset` takes; ``episode_id`` may be left out.

    Raises:
        InvalidOptionError: It does not take another one.
    """
    seed = arguments.get("seed")
    if seed is not None and (type(seed) is not int or seed < 0):
        raise errors.InvalidOptionError(
            f"seed={seed!r:.40}: expected an integer from 0, or none.", field="seed"
        )
    parameters = inspect.signature(reset).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return dict(arguments)
    unknown = [name for name in arguments if name not in parameters and name != "episode_id"]
    if unknown:
        raise errors.InvalidOptionError(
            f"reset does not take {unknown[0]!r:.80}; it takes {', '.join(parameters)}.",
            field=unknown[0][:80],
        )
    return {name: value for name, value in arguments.items() if name in parameters}


def refused(error: ValidationError) -> errors.InvalidActionError:
    """Return the error for an action that a model refuses; it has all of Pydantic's in `data`."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    first = found[0]
    name = ".".join(str(part) for part in first["loc"]) or error.title
    return errors.InvalidActionError(
        f"{name}: {first['msg'].rstrip('.')}.",
        field=name,
        hint=f"See the model {error.title}.",
        data={"errors": [{**each, "loc": list(each["loc"])} for each in found]},
    )


# -- writing ------------------------------------------------------------------------------------


def outcome_to_values(outcome: Outcome) -> list[Any]:
    """Return an outcome for the binary protocol: observation, reward, done, truncated, metadata."""
    # Not dumped: the codec carries models, and Pydantic would make tuples of graphs.
    fields = {name: value for name, value in outcome.observation if name not in _BASE}
    return [fields, outcome.reward, outcome.done, outcome.truncated, outcome.metadata]


def outcome_to_json(outcome: Outcome) -> str:
    """Return an outcome as the data of OpenEnv's ``observation`` message."""
    fields = outcome.observation.model_dump_json(exclude=set(_BASE))
    metadata = to_plain(outcome.metadata)
    if outcome.truncated:
        metadata["truncated"] = True
    noted = json.dumps(metadata, allow_nan=False)
    inner = f'{fields[:-1]}{"," if len(fields) > 2 else ""}"metadata":{noted}}}'
    reward = json.dumps(to_plain(outcome.reward), allow_nan=False)
    outer = f',"metadata":{noted}' if metadata else ""
    done = "true" if outcome.done else "false"
    return f'{{"observation":{inner},"reward":{reward},"done":{done}{outer}}}'
