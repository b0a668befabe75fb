"""One environment of one session: operations in, plain values out. Knows nothing of the wire."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, Protocol

import gymnasium

from openenv_gym import errors
from openenv_gym.protocol.codec import encode_packet
from openenv_gym.protocol.generators import generator_state, same_state, set_state
from openenv_gym.server import attributes
from openenv_gym.server.adapter import TypedEnv
from openenv_gym.server.carrying import as_carried, stand_ins_of
from openenv_gym.server.environment import AnyEnvironment, Environment
from openenv_gym.server.operations import find_operation, read_saved, run_operation
from openenv_gym.server.scoring import begin_scoring
from openenv_gym.server.typed_host import TYPED_OPERATIONS, TypedHost, mask_of
from openenv_gym.spaces import space_to_data
from openenv_gym.spaces.actions import check_hosted_action


__all__ = [
    "EnvironmentHost",
    "Host",
    "describe_env",
    "describe_metadata",
]

_CHANGING = frozenset(
    {"reset", "step", "set", "call", "restore_state", "reset_typed", "step_typed", "mcp"}
)
"""Operations after which observed values may be others."""


class Host(Protocol):
    """What a session needs of whatever it holds."""

    def describe(self) -> dict[str, Any]:
        """Return the part of the map ``environment`` of WELCOME that the environment decides."""

    def schemas(self) -> dict[str, Any]:
        """Return JSON Schemas of action, observation and state."""

    def execute(self, op: str, args: list[Any], rng: Any = None) -> tuple[Any, int]:
        """Run one operation; return its value, and the nanoseconds that the environment took."""

    def extras(self, op: str) -> dict[str, Any]:
        """Return what must go along with the reply to the operation that was just run."""

    def close(self) -> None:
        """Close what is held."""


class EnvironmentHost(TypedHost):
    """Runs the operations of docs/protocol.md, section 4.2, on an environment.

    Args:
        environment: What a session was opened for.
        observables: Paths that `observe` takes, beside those that the environment names itself.
        tasks: What has the tasks (a `TaskProvider`); by default the environment, where it does.

    Attributes:
        time_limit: Steps after which the environment's own spec has an episode truncated, by the
            client; None if never.
    """

    def __init__(
        self,
        environment: AnyEnvironment,
        observables: tuple[str, ...] = (),
        tasks: object | None = None,
    ) -> None:
        env: gymnasium.Env[Any, Any]
        if isinstance(environment, Environment):
            env = TypedEnv(environment)
            self._target = environment.remote_target
            observables = (*environment.observables, *observables)
        else:
            env = as_carried(environment)
            self._target = environment.unwrapped
        super().__init__(env, environment, tasks)
        self.observables = observables
        self._base = self.env.unwrapped
        self._observed: list[str] = []
        self._rng_known: Any = None

    # -- description --------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name of the environment's class."""
        return type(self._target).__name__

    def describe(self) -> dict[str, Any]:
        """Return the part of the map ``environment`` of WELCOME that this environment decides.

        Raises:
            SpaceError: A space cannot be carried.
        """
        return {
            **describe_env(self.env, self.name),
            "observables": list(self.observables),
            "rng": self._rng_changed(),
            "time_limit": self.time_limit,
        }

    # -- operations ---------------------------------------------------------------------------

    def execute(self, op: str, args: list[Any], rng: Any = None) -> tuple[Any, int]:
        """Run one operation; `extras` must follow, whether it fails or not.

        Args:
            op: Name of the operation.
            args: Its arguments, as the protocol has them.
            rng: State of the generator to set first, where the client drew from it.

        Returns:
            The value, and the nanoseconds that the environment took.

        Raises:
            ProtocolError: No such operation, or arguments of the wrong form.
            InvalidActionError: The action is not in the action space.
            ResetNeededError: `step` or `render` before `reset`.
            Exception: Whatever the environment raises.
        """
        operation = find_operation(_OPERATIONS, op)
        if rng is not None:
            self._set_rng(rng)
        return run_operation(MethodType(operation, self), op, args)

    def extras(self, op: str) -> dict[str, Any]:
        """Return what must go along with the reply to the operation that was just run."""
        extras: dict[str, Any] = {}
        changed = self._rng_changed()
        if changed is not None:
            extras["rng"] = changed
        if self._observed and op in _CHANGING:
            extras["observed"] = self._values()
        return extras

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> list[Any]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._has_begun(seed)
        self._mask = mask_of(info)
        return [observation, info]

    def _has_begun(self, seed: int | None) -> None:
        super()._has_begun(seed)
        if seed is not None:
            self._rng_known = None  # the seed itself is news, even where the state is not

    def _step(self, action: Any) -> list[Any]:
        self._need_reset("step")
        if not self._typed:  # a typed environment checks more, and does it itself
            check_hosted_action(self.env.action_space, action)
        self._steps += 1
        outcome = list(self.env.step(action))
        self._mask = mask_of(outcome[-1])
        return outcome

    def _render(self) -> Any:
        self._need_reset("render")
        return self.env.render()

    def _get(self, path: str) -> list[Any]:
        return attributes.describe(attributes.resolve(self._target, path))

    def _set(self, path: str, value: Any) -> None:
        attributes.assign(self._target, path, value)

    def _call(self, path: str, args: Any, kwargs: Any) -> Any:
        if not isinstance(args, list) or not isinstance(kwargs, dict):
            raise errors.ProtocolError("Expected [path, list, map].", field="args")
        return attributes.resolve(self._target, path)(*args, **kwargs)

    def _observe(self, paths: list[str]) -> None:
        if not isinstance(paths, list):
            raise errors.ProtocolError(f"Expected a list, got {paths!r:.40}.", field="paths")
        for path in paths:
            if path not in self.observables:
                raise errors.ProtocolError(
                    f"{path!r:.60} cannot be observed, only {', '.join(self.observables)}.",
                    field="paths",
                )
        self._observed = list(paths)

    def _values(self) -> list[Any] | None:
        try:
            found = [attributes.resolve(self._target, path) for path in self._observed]
            return [value() if callable(value) else value for value in found]
        except Exception:
            # Whoever reads it asks for it then, and gets the exception.
            return None

    def _ping(self) -> None:
        """Do nothing, in its turn."""

    def _save_state(self) -> Any:
        self._need_reset("save_state")
        return [self._steps, self._environment("save").save_state()]

    def _restore_state(self, saved: Any) -> None:
        environment = self._environment("restore")
        steps, state = read_saved(saved)
        environment.restore_state(state)
        if environment.rubric is not None:
            begin_scoring(environment.rubric)  # the steps that led to this state it cannot know
        self._steps = steps
        self._started = True
        self._mask = None  # of another state

    def _environment(self, verb: str) -> Environment[Any, Any, Any]:
        if isinstance(self.env, TypedEnv):
            return self.env.environment
        raise NotImplementedError(f"{type(self._base).__name__} cannot {verb} its state.")

    # -- random generator ---------------------------------------------------------------------

    def _rng_changed(self) -> dict[str, Any] | None:
        """Return the generator's state where the client does not know it yet."""
        state = generator_state(self._base._np_random)
        if state is None:
            return None
        if self._rng_known is not None and same_state(state, self._rng_known):
            return None
        self._rng_known = state
        return {"seed": self._base._np_random_seed, "state": state}

    def _set_rng(self, rng: Any) -> None:
        seed = rng.get("seed") if isinstance(rng, dict) else None
        if not isinstance(rng, dict) or (seed is not None and type(seed) is not int):
            raise errors.ProtocolError(
                f"Expected a map of seed and state, got {rng!r:.80}.", field="rng"
            )
        generator = set_state(self._base._np_random, rng.get("state"))
        if generator is not self._base._np_random:
            self._base._np_random = generator
        self._base._np_random_seed = seed
        self._rng_known = None  # the client waits to hear that it arrived


# Not bound to a host, which would hold itself then: an environment goes with its session, and does
# not wait for the garbage collector, however large it is.
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "reset": EnvironmentHost._reset,
    "step": EnvironmentHost._step,
    "render": EnvironmentHost._render,
    "get": EnvironmentHost._get,
    "set": EnvironmentHost._set,
    "call": EnvironmentHost._call,
    "observe": EnvironmentHost._observe,
    "ping": EnvironmentHost._ping,
    "save_state": EnvironmentHost._save_state,
    "restore_state": EnvironmentHost._restore_state,
    "state": EnvironmentHost._state,
    **TYPED_OPERATIONS,
}


def describe_env(env: Any, name: str) -> dict[str, Any]:
    """Return what WELCOME says of any environment.

    Args:
        env: A `gymnasium.Env`, or what has its spaces, metadata and render mode.
        name: Name of its class.

    Raises:
        SpaceError: A space cannot be carried.
    """
    stand_ins = stand_ins_of(env)
    return {
        "name": name,
        "action_space": space_to_data(env.action_space),
        "observation_space": space_to_data(env.observation_space),
        "metadata": describe_metadata(env.metadata),
        "render_mode": env.render_mode,
        **({"stand_ins": stand_ins} if stand_ins else {}),
    }


def describe_metadata(metadata: dict[str, Any] | None) -> dict[Any, Any]:
    """Return what WELCOME says of an environment's metadata: as text what cannot be sent."""
    metadata = dict(metadata or {})
    metadata.pop("jax", None)  # what travels is NumPy's, whatever it was computed with
    return {_sendable(key): _sendable(value) for key, value in metadata.items()}


def _sendable(value: Any) -> Any:
    """Return a value of the metadata, as text where it cannot be sent."""
    value = getattr(value, "value", value)
    try:
        encode_packet([value])
    except errors.EncodeError:
        return repr(value)
    return value
